// A job as it is drawn: its state, the span that shows it, who took which second, what happened, its ring.

import type { components } from "../../api/schema";
import { entityOf } from "../../lib/entity";
import type { Line, Overlay } from "../../lib/plot";
import type { State } from "../../lib/state";
import { S } from "../../lib/time";
import { percent } from "../../lib/units";

export type Job = components["schemas"]["JobNow"];
export type Ledger = components["schemas"]["LedgerAnswer"];
export type Mark = components["schemas"]["OverlayMark"];
export type Communicator = components["schemas"]["MessageCommunicator"];
export type Edge = components["schemas"]["MessageEdge"];

export interface Ends {
  readonly fromNs: number;
  readonly toNs: number;
}

/** A job with symptoms is bad where their cause is known, else to be watched; without a ledger it is not known. */
export function stateOfJob(one: Job): State {
  if (one.incidents_open > one.suppressed) return one.incidents_known ? "bad" : "watch";
  if (one.incidents_open) return "suppressed";
  return one.goodput === null ? "unknown" : "good";
}

/** The same in words, for those who do not see it. */
export function stateWords(one: Job): string {
  const open = one.incidents_open - one.suppressed;
  if (open > 0) return `${open} ${open === 1 ? "incident" : "incidents"} open`;
  if (one.incidents_open) return "incident suppressed";
  return one.goodput === null ? `unknown: ${one.why}` : "no incident open";
}

const REST_TOLD = 0.02; // of the GPU time held: less is no news
const REST: Readonly<Record<string, string>> = { restart: "starting", straggler: "waiting", idle: "idle" };

/** `10 % starting`: where held time went that was neither productive nor lost, so that a goodput of 90 % beside a loss
 *  of nothing is understood; empty where that is little. */
export function restWords(one: Pick<Job, "spent">): string {
  return one.spent
    .filter((each) => each.share >= REST_TOLD)
    .map((each) => `${percent(each.share)} ${REST[each.category] ?? each.category}`)
    .join(", ");
}

/** How much longer a step takes than usual, as a ratio; null where either is not known. */
export function slower(one: Pick<Job, "step_s" | "baseline_s">): number | null {
  return one.step_s !== null && one.baseline_s ? one.step_s / one.baseline_s : null;
}

const ROOM = 0.02; // beside what is shown, of its length
const LEAST_NS = 10 * S;

/** The part of a span in which a job was there, so that a job of minutes fills the picture of an hour. */
export function spanOfJob(one: Pick<Job, "since_ns" | "until_ns" | "running">, span: Ends): Ends {
  const from = Math.max(span.fromNs, one.since_ns);
  const to = one.running ? span.toNs : Math.min(span.toNs, one.until_ns);
  const room = Math.max(LEAST_NS, (to - from) * ROOM);
  return { fromNs: Math.max(span.fromNs, from - room), toNs: Math.min(span.toNs, to + room) };
}

// --- who took which second ---

const USED = ["compute", "communication", "input", "checkpoint", "restart", "straggler", "idle"];
const TAKERS = 5; // with a colour of their own
const WORDS: Readonly<Record<string, string>> = { communication: "comm" };

/** `straggler: rank 13`, `comm: port h3/eth0`, `comm: 3 > 4`: who took seconds, as short as it can be told. */
export function takerName(category: string, owner: string | null): string {
  return `${WORDS[category] ?? category}: ${ownerName(owner)}`;
}

/** `rank 13`, `edge 3 > 4`, `port h3/eth0`, or the words as they are. */
export function ownerName(owner: string | null): string {
  if (!owner) return "no single owner";
  const [from, to] = owner.split(">");
  if (to) return `edge ${rankOf(from ?? "")} > ${rankOf(to)}`;
  const { kind, name } = entityOf(owner);
  if (kind === "rank") return `rank ${rankOf(owner)}`;
  if (kind === "job") return "all ranks";
  if (kind === "comm") return "all edges";
  return kind ? `${kind} ${name}` : name;
}

function rankOf(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1);
}

/** Where a click on an owner leads; empty for words, which are no entity. */
export function ownerId(owner: string | null): string {
  const first = owner?.split(">")[0] ?? "";
  return /^[a-z]+:\S+$/.test(first) ? first : "";
}

const SHADES = 4; // of what was lost, in app.css

/** The colour of what an owner took: the hue of its category, a shade by its name, whatever else is shown beside it. */
export function lostColour(category: string, owner: string | null): string {
  let sum = 0;
  for (const letter of owner ?? "") sum = (sum * 31 + letter.charCodeAt(0)) % 9973;
  return USED.includes(category) ? `lost-${category}-${(sum % SHADES) + 1}` : "lost-others";
}

export interface Bands {
  readonly timeNs: number[];
  readonly lines: Line[];
}

/** The ledger as a stack of shares of wall time: what was used, by category; what was lost, by who took it; what nobody
 *  knows. Each bin has two points, so that a second is not spread over its neighbours. */
export function bands(ledger: Pick<Ledger, "timeline" | "takers">): Bands {
  const { timeline, takers } = ledger;
  const told = takers.slice(0, TAKERS);
  const timeNs = timeline.flatMap((bin) => [bin.from_ns, bin.to_ns - 1]);
  const allS = timeline.reduce((sum, bin) => sum + (bin.to_ns - bin.from_ns) / S, 0);
  const line = (label: string, colour: string, of: (at: number) => number, hatched = false): Line => ({
    label,
    colour,
    hatched,
    whole: timeline.reduce((sum, _, at) => sum + Math.max(0, of(at)), 0) / (allS || 1),
    values: timeline.flatMap((bin, at) => {
      const share = Math.max(0, of(at)) / ((bin.to_ns - bin.from_ns) / S);
      return [share, share];
    }),
  });
  const lost = (at: number, category?: string): number =>
    Object.entries(timeline[at]?.lost ?? {}).reduce(
      (sum, [name, seconds]) => sum + (category && name !== category ? 0 : seconds),
      0,
    );
  const used = USED.map((name) =>
    line(name, `took-${name}`, (at) => (timeline[at]?.seconds[name] ?? 0) - lost(at, name)),
  );
  const taken = told.map((one) =>
    line(
      takerName(one.category, one.owner),
      lostColour(one.category, one.owner),
      (at) => one.lost_seconds[at] ?? 0,
    ),
  );
  const rest = line("lost to others", "lost-others", (at) =>
    told.reduce((sum, one) => sum - (one.lost_seconds[at] ?? 0), lost(at)),
  );
  const unknown = line("unknown", "unknown", (at) => timeline[at]?.seconds.unknown ?? 0, true);
  const missing = line("not analysed", "unknown", (at) => timeline[at]?.missing ?? 0, true);
  const lines = [...used, ...taken, rest, unknown, missing].filter((one) =>
    one.values.some((value) => value !== null && value > 0.0005),
  );
  return { timeNs, lines };
}

/** Share of each bin that was productive: compute and communication, less what was lost of them. */
export function goodputLine(timeline: Ledger["timeline"]): { timeNs: number[]; values: (number | null)[] } {
  const timeNs: number[] = [];
  const values: (number | null)[] = [];
  for (const bin of timeline) {
    const held = Object.values(bin.seconds).reduce((sum, each) => sum + each, bin.missing);
    let productive = 0;
    for (const name of ["compute", "communication"])
      productive += (bin.seconds[name] ?? 0) - (bin.lost[name] ?? 0);
    timeNs.push((bin.from_ns + bin.to_ns) / 2);
    // A bin in which all is unknown is not one without goodput.
    const known = held - bin.missing - (bin.seconds.unknown ?? 0);
    values.push(known > 0 ? productive / held : null);
  }
  return { timeNs, values };
}

// --- what happened ---

const STATE_OF: Readonly<Record<string, State>> = {
  fatal: "bad",
  critical: "bad",
  error: "bad",
  warning: "watch",
};

/** An incident among what happened: what lasts is bad, or to be watched where its cause is unknown; over is quiet. */
export function stateOfMark(mark: Mark): State {
  const state = STATE_OF[mark.severity] ?? "suppressed";
  return mark.end_ns === null || state === "suppressed" ? state : "good";
}

/** Marks of the API for the time axis; an incident leads to its card. */
export function overlays(marks: readonly Mark[]): Overlay[] {
  return marks.map((mark) => {
    const state = STATE_OF[mark.severity];
    return {
      timeNs: mark.t_ns,
      endNs: mark.end_ns,
      text: mark.text,
      ...(state ? { state } : {}),
      ...(mark.incident ? { href: `/incidents/${encodeURIComponent(mark.incident)}` } : {}),
    };
  });
}

// --- ranks ---

/** `5 h6`: a line of the heat map; of a fold of ranks only their numbers. */
export function rankNames(
  names: readonly string[],
  places: readonly { readonly rank: number; readonly host: string | null }[],
): string[] {
  const hosts = new Map(places.map((one) => [String(one.rank), one.host]));
  return names.map((name) => (hosts.get(name) ? `${name} ${hosts.get(name)}` : name));
}

// --- the ring ---

export const RING_MAX = 32; // ranks that a circle can show

export interface Arc {
  readonly edge: Edge | undefined;
  readonly from: number;
  readonly to: number;
}

/** The edges of a ring or chain in its order; one of which no message was seen has none. */
export function arcs(one: Communicator, channel: number): Arc[] {
  const shape = one.channels.find((each) => each.channel === channel);
  if (!shape?.order.length) return [];
  const pairs = shape.order.map((from, at) => [from, shape.order[(at + 1) % shape.order.length] ?? from]);
  if (shape.shape !== "ring") pairs.pop();
  return pairs.map(([from = 0, to = 0]) => ({
    from,
    to,
    edge: one.edges.find((edge) => edge.src_rank === from && edge.dst_rank === to),
  }));
}

/** Which of the channels with an order has the edge that holds most: by its place among them. */
export function worstChannel(one: Communicator): number {
  const most = one.channels
    .filter((each) => each.order.length)
    .map((each) => Math.max(0, ...arcs(one, each.channel).map((arc) => arc.edge?.share ?? 0)));
  return Math.max(0, most.indexOf(Math.max(0, ...most)));
}

/** A point of a circle: the first of `n` at the top, then clockwise. */
export function onCircle(at: number, n: number, radius: number): { x: number; y: number } {
  const angle = (2 * Math.PI * at) / n - Math.PI / 2;
  return { x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
}

/** Width of an edge by its bytes, px: the largest is `most`, one without bytes a hair. */
export function widthOf(bytes: number, largest: number, most = 10): number {
  return largest > 0 && bytes > 0 ? Math.max(1.5, most * Math.sqrt(bytes / largest)) : 1;
}

/** An edge that holds more than its part: twice what each would hold if all held the same. */
export function holds(share: number | null, edges: number): State {
  if (share === null) return "unknown";
  const even = 1 / Math.max(1, edges);
  return share >= 4 * even && share > 0.1 ? "bad" : share >= 2 * even && share > 0.05 ? "watch" : "good";
}
