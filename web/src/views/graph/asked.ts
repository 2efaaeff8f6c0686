// What the graph's view is asked for, as its URL says it: `job` or the
// entity `of` at its root, the part `at` that is chosen, the moment `time`, groups that are `open`.

import { momentOf } from "../../lib/moment";
import { ends, S, type Span } from "../../lib/time";

const BETWEEN = "|";

/** What the API is asked for: the job, else the entity `of`, else the one chosen, else nothing yet. */
export function rootOf(job: string, of: string, at: string): { job?: string; of?: string } | null {
  if (job) return { job };
  if (of) return { of };
  if (at.startsWith("job:")) return { job: at.slice("job:".length) };
  return at ? { of: at } : null;
}

/** The moment that the API is asked about: the slider's, else the end of a span that stands still, else now. */
export function momentAsked(time: string, span: Span): string {
  const moment = time ? momentOf(time, { nowNs: 0 }) : null;
  if (moment !== null) return String(moment);
  return "lastS" in span ? "" : String(span.toNs);
}

export function openOf(text: string): Set<string> {
  return new Set(text.split(BETWEEN).filter(Boolean));
}

export function openText(open: Iterable<string>): string {
  return [...open].join(BETWEEN);
}

/** A set with one more, or without it. */
export function turned(open: ReadonlySet<string>, one: string): Set<string> {
  const found = new Set(open);
  if (!found.delete(one)) found.add(one);
  return found;
}

/** What the slider reaches over: the time that the thing was there, as far as the page's span shows it; all of that time
 *  where the two do not meet. */
export function rangeOf(
  there: { readonly from_ns: number; readonly to_ns: number | null },
  span: Span,
  nowNs: number,
): { fromNs: number; toNs: number } {
  const whole = { fromNs: there.from_ns, toNs: Math.max(there.to_ns ?? nowNs, there.from_ns + S) };
  const shown = ends(span, nowNs);
  const [fromNs, toNs] = [Math.max(whole.fromNs, shown.fromNs), Math.min(whole.toNs, shown.toNs)];
  return toNs - fromNs >= S ? { fromNs, toNs } : whole;
}

const MARK_NS = 5 * S; // so long something that came or went is told

/** What happens at a moment: an incident without an end lasts, anything else without one was there for a moment. */
export function happening<T extends { start_ns: number; end_ns: number | null; what: string }>(
  moments: readonly T[],
  ns: number,
): T[] {
  return moments.filter((one) => {
    const until = one.end_ns ?? (one.what === "incident" ? Infinity : one.start_ns + MARK_NS);
    return one.start_ns <= ns && ns < until;
  });
}

/** Where a moment lies on the slider, 0 to 1. */
export function shareOf(ns: number, range: { fromNs: number; toNs: number }): number {
  return Math.min(1, Math.max(0, (ns - range.fromNs) / (range.toNs - range.fromNs)));
}
