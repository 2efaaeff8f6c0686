// The span of time that the whole page shows: from the URL and back, in words, wider.

import { FORMS, momentOf, type Zone } from "./moment";
import { DEFAULT_SPAN, dateOf, S, type Span } from "./time";

const LAST_S_MAX = 366 * 86_400;
const UNITS = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 } as const;
const STEP_NS = 10 * S; // a span that is told relative to now moves by this much: each move asks for everything again

/** What a URL says of the span: the span, and what of it was not understood (then the default is shown). `nowNs` is
 *  asked for only by relative times. */
export function readSpan(
  params: URLSearchParams,
  nowNs: () => number,
  zone: Zone = "utc",
): { readonly span: Span; readonly problem: string } {
  const [last, from, to] = ["last", "from", "to"].map((name) => params.get(name)?.trim() ?? "");
  if (from || to) return between(from ?? "", to ?? "", nowNs, zone);
  if (!last) return { span: DEFAULT_SPAN, problem: "" };
  const lastS = lastOf(last);
  if (lastS === null) return failed(`last: expected 15m, 6h or 7d, up to 366 d, got '${last}'`);
  return { span: { lastS }, problem: "" };
}

function between(from: string, to: string, nowNs: () => number, zone: Zone): ReturnType<typeof readSpan> {
  if (!from) return failed(`from: expected ${FORMS}, got nothing; 'to' alone is no span`);
  const until = to === "now" ? "" : to;
  const lastS = until ? null : lastOf(from.replace(/^(now)?-/, ""), /^(now)?-/.test(from));
  if (lastS !== null) return { span: { lastS }, problem: "" };
  const now = relative(from) || relative(until) || !until ? steady(nowNs()) : 0;
  const fromNs = momentOf(from, { nowNs: now, zone });
  const toNs = until ? momentOf(until, { nowNs: now, end: true, zone }) : now;
  if (fromNs === null) return failed(`from: expected ${FORMS}, got '${from}'`);
  if (toNs === null) return failed(`to: expected ${FORMS}, got '${to}'`);
  if (toNs <= fromNs) return failed(`from: expected a time before 'to', got '${from}' and '${to || "now"}'`);
  return { span: { fromNs, toNs }, problem: "" };
}

function failed(problem: string): ReturnType<typeof readSpan> {
  return { span: DEFAULT_SPAN, problem };
}

function relative(text: string): boolean {
  return !/^\d{4}-|^\d{19}$/.test(text);
}

function steady(nowNs: number): number {
  return nowNs - (nowNs % STEP_NS);
}

/** `15m` in seconds; null for what is no span. */
export function lastOf(text: string, wanted = true): number | null {
  const found = /^(\d+)([smhdw])$/.exec(text);
  if (!found || !wanted) return null;
  const lastS = Number(found[1]) * UNITS[found[2] as keyof typeof UNITS];
  return lastS > 0 && lastS <= LAST_S_MAX ? lastS : null;
}

/** The parameters that say a span; none for the default. */
export function spanParams(span: Span): Record<string, string> {
  if (!("lastS" in span))
    return { from: dateOf(span.fromNs).toISOString(), to: dateOf(span.toNs).toISOString() };
  return span.lastS === DEFAULT_SPAN.lastS ? {} : { last: lastText(span.lastS) };
}

/** `6h` of 21,600 s, `24h` of a day, `7d` of a week. */
export function lastText(lastS: number): string {
  if (lastS === UNITS.d) return "24h";
  for (const unit of ["d", "h", "m"] as const)
    if (lastS % UNITS[unit] === 0) return `${lastS / UNITS[unit]}${unit}`;
  return `${lastS}s`;
}

/** Twice as long around its middle; what ends now goes on ending now. Never past now, never longer than the longest. */
export function wider(span: Span, nowNs: number): Span {
  if ("lastS" in span) return { lastS: Math.min(span.lastS * 2, LAST_S_MAX) };
  const half = Math.min((span.toNs - span.fromNs) / 2, (LAST_S_MAX / 4) * S);
  const past = Math.max(0, span.toNs + half - nowNs);
  return { fromNs: Math.round(span.fromNs - half - past), toNs: Math.round(span.toNs + half - past) };
}

/** `last 1 h`; `Nov 27, 14:02 to 15:02 UTC`; of another year `Nov 27 2025, ...`. */
export function spanWords(span: Span, nowNs: number): string {
  if ("lastS" in span)
    return `last ${lastText(span.lastS).replace(/(\d+)(\w)/, (_, count, unit) => `${count} ${unit === "m" ? "min" : unit}`)}`;
  const [from, to] = [dateOf(span.fromNs), dateOf(span.toNs)];
  const day = dayWords(to, nowNs) === dayWords(from, nowNs) ? "" : `${dayWords(to, nowNs)}, `;
  const exact = from.getUTCSeconds() || to.getUTCSeconds() ? 19 : 16;
  const time = (date: Date) => date.toISOString().slice(11, exact);
  return `${dayWords(from, nowNs)}, ${time(from)} to ${day}${time(to)} UTC`;
}

/** `Nov 27, 14:02 UTC`, of another year than that of `nowNs` `Nov 27 2025, ...`. */
export function momentWords(ns: number, nowNs: number): string {
  return `${dayWords(dateOf(ns), nowNs)}, ${dateOf(ns).toISOString().slice(11, 16)} UTC`;
}

/** `Nov 27`, of another year than that of `nowNs` `Nov 27 2025`; UTC. */
function dayWords(date: Date, nowNs?: number): string {
  const same = nowNs !== undefined && date.getUTCFullYear() === dateOf(nowNs).getUTCFullYear();
  const day = date.toLocaleDateString("en-US", { month: "short", day: "numeric", timeZone: "UTC" });
  return same ? day : `${day} ${date.getUTCFullYear()}`;
}

/** A moment for a field that is edited: `2026-11-20 14:02:05` in a zone. */
export function fieldText(ns: number, zone: Zone): string {
  const date = dateOf(ns);
  const shift = zone === "local" ? date.getTimezoneOffset() * 60_000 : 0;
  return new Date(date.getTime() - shift).toISOString().slice(0, 19).replace("T", " ");
}
