// Words of clocks and of the mesh between hosts.

import type { components } from "../../api/schema";
import type { Line, Values } from "../../lib/plot";
import type { State } from "../../lib/state";
import { duration, figures, percent } from "../../lib/units";

export type Clock = components["schemas"]["ClockRow"];
export type Window = components["schemas"]["MeshWindow"];

export const MEASURES = [
  { name: "queue_p50", title: "queueing, median" },
  { name: "queue", title: "queueing, 99th percentile" },
  { name: "p50", title: "delay, median" },
  { name: "p99", title: "delay, 99th percentile" },
  { name: "min", title: "delay, smallest" },
  { name: "lost", title: "probes lost" },
] as const;
export type Measure = (typeof MEASURES)[number]["name"];

/** The measure of a URL; the first for one that there is not. */
export function measureOf(text: string): Measure {
  return MEASURES.find((one) => one.name === text)?.name ?? MEASURES[0].name;
}

/** A value of the mesh with its unit. */
export function told(value: number, unit: string): string {
  return unit === "ratio" ? percent(value) : duration(value / 1e9);
}

/** `-1.2 µs ± 0.3 µs`: never an offset without how well it is known. */
export function offset(one: Clock): string {
  if (!isHeld(one)) return "unknown";
  const sign = one.offset_ns > 0 ? "+" : "";
  return `${sign}${duration(one.offset_ns / 1e9)} ± ${duration(one.bound_ns / 1e9)}`;
}

/** `+12.5 ppb`. */
export function drift(one: Clock): string {
  return `${one.rate_ppb > 0 ? "+" : ""}${figures(one.rate_ppb)} ppb`;
}

/** Whether a clock is known to within a bound; one that lies or was just set is not. */
function isHeld(one: Clock): boolean {
  return one.state !== "lost" && one.state !== "lying" && one.bound_ns < 3_600_000_000_000;
}

/** What is not to be trusted is watched; where a lost clock stands is unknown. */
export function clockState(one: Clock): State {
  return !isHeld(one) ? "unknown" : one.doubts.length || one.state !== "fitted" ? "watch" : "good";
}

/** Those that are not to be trusted first, otherwise as they come: the least certain first. */
export function doubtedFirst(clocks: readonly Clock[]): Clock[] {
  return [...clocks.filter((one) => one.doubts.length), ...clocks.filter((one) => !one.doubts.length)];
}

/** A median with its bound as a band: where the bound is unknown there is none. */
export function banded(
  windows: readonly Pick<Window, "end_ns" | "p50_ns" | "p99_ns" | "bound_ns">[],
  timeNs: readonly number[],
): { middle: Values; low: Values; high: Values; late: Values } {
  const at = new Map(windows.map((one) => [one.end_ns, one]));
  const seconds = (of: (one: (typeof windows)[number]) => number | null): Values =>
    timeNs.map((time) => {
      const one = at.get(time);
      const value = one ? of(one) : null;
      return value === null ? null : value / 1e9;
    });
  return {
    middle: seconds((one) => one.p50_ns),
    // A delay is never negative, however little is known of it.
    low: seconds((one) => (one.bound_ns === null ? null : Math.max(0, one.p50_ns - one.bound_ns))),
    high: seconds((one) => (one.bound_ns === null ? null : one.p50_ns + one.bound_ns)),
    late: seconds((one) => one.p99_ns),
  };
}

/** Both ways on one axis: each its median with its bound, and its 99th percentile dashed. */
export function bothWays(
  names: readonly [string, string],
  there: readonly Heard[],
  back: readonly Heard[],
): { times: number[]; lines: Line[] } {
  // Of a window in which nothing arrived there is no delay: a gap.
  const ways = [there, back].map((some) => some.filter((one) => one.lost < 1));
  const times = [...new Set(ways.flat().map((one) => one.end_ns))].sort((a, b) => a - b);
  const lines = ways.flatMap((some, way): Line[] => {
    const { middle, low, high, late } = banded(some, times);
    const colour = way === 0 ? "accent" : "watch";
    const label = names[way] ?? "";
    return [
      { label, colour, values: middle, low, high },
      { label: `${label}, p99`, colour, values: late, dashed: true },
    ];
  });
  return { times, lines };
}
type Heard = Pick<Window, "end_ns" | "p50_ns" | "p99_ns" | "bound_ns" | "lost">;

/** `h1~h2` of a URL as two hosts; undefined if it is none. */
export function pairOf(text: string): { src: string; dst: string } | undefined {
  const [src, dst, more] = text.split("~");
  return src && dst && more === undefined && src !== dst ? { src, dst } : undefined;
}

/** What differs between the two ways, and whether the clocks allow to say so. */
export function asymmetry(there: Window | undefined, back: Window | undefined): string {
  if (!there || !back) return "only one direction was measured: nothing to compare";
  if (there.lost >= 1 || back.lost >= 1) return "of one direction nothing arrives: nothing to compare";
  const apart = there.p50_ns - back.p50_ns;
  const words = `medians differ by ${duration(Math.abs(apart) / 1e9)}`;
  if (there.bound_ns === null || back.bound_ns === null) return `${words}; how well clocks agree is unknown`;
  const within = there.bound_ns + back.bound_ns;
  return Math.abs(apart) <= within
    ? `${words}, within what the clocks leave open (${duration(within / 1e9)})`
    : `${words}, more than the clocks leave open (${duration(within / 1e9)}): the paths differ`;
}
