// Two sides: what can be named, what a difference is drawn as.

import type { components } from "../../api/schema";
import { entityOf } from "../../lib/entity";
import type { State } from "../../lib/state";
import { bitRate, bytes, duration, figures, percent } from "../../lib/units";

export type Compared = components["schemas"]["CompareAnswer"];
export type Difference = components["schemas"]["DifferenceAnswer"];
export type Quantile = components["schemas"]["QuantileAnswer"];

/** Whether a side has no peers by itself: a job needs another run to be held against. */
export function needsOther(side: string): boolean {
  const { kind } = entityOf(side.split("@")[0] ?? "");
  return kind === "" || kind === "job";
}

/** Names that can be compared, as the comparison takes them: jobs without their kind. */
export function comparable(entities: readonly string[]): string[] {
  return entities.flatMap((id) => {
    const { kind, name } = entityOf(id);
    return kind === "job" ? [name] : kind === "host" || kind === "gpu" ? [id] : [];
  });
}

/** Of names those that are of the kind of a side; all while it is empty. */
export function alike(names: readonly string[], side: string): string[] {
  if (!side) return [...names];
  const kind = (name: string): string => entityOf(name.split("@")[0] ?? "").kind || "job";
  return names.filter((name) => kind(name) === kind(side));
}

/** What was compared, with sizes as people read them: `in all_reduce 2.37 MB on 8`. */
export function whatWords(what: string): string {
  return what.replace(
    /(\d+) B on (\d+)$/,
    (_, size: string, ranks: string) => `${bytes(Number(size))} on ${ranks}`,
  );
}

/** A value of a comparison with its unit: `2.1 s`, `3.4 Gbit/s`, `5,230 tokens/s`. */
export function inUnitOf(unit: string, value: number | null): string {
  if (value === null) return "unknown";
  if (unit === "s") return duration(value);
  if (unit === "GB/s") return bitRate(value * 1e9);
  if (unit === "share") return percent(value);
  return `${figures(value)} ${unit}`;
}

/** `2.1 s (1.9 s to 2.3 s)`: with the interval that it lies in, in 95 of 100 cases. */
export function withInterval(unit: string, one: Quantile): string {
  const value = inUnitOf(unit, one.value);
  return one.low === null || one.high === null
    ? value
    : `${value} (${inUnitOf(unit, one.low)} to ${inUnitOf(unit, one.high)})`;
}

/** `B 32 % more (20 to 41)`, `no difference beyond noise`, `unknown: too few values`. */
export function verdictWords(one: Difference): string {
  if (one.verdict === "same") return "no difference beyond noise";
  if (one.verdict !== "more" && one.verdict !== "less") return `unknown: ${one.why}`;
  if (one.ratio === null) return `B is ${one.verdict}`;
  const by = (ratio: number): string => figures(Math.abs(ratio - 1) * 100);
  const apart = one.ratio > 3 ? `${figures(one.ratio)} times as much` : `${by(one.ratio)} % ${one.verdict}`;
  if (one.low === null || one.high === null || one.ratio > 3) return `B ${apart}`;
  const [near, far] = [one.low, one.high].sort((x, y) => Math.abs(x - 1) - Math.abs(y - 1));
  return `B ${apart} (${by(near ?? 1)} to ${by(far ?? 1)})`;
}

const RATES = /\/s$/;

/** A difference that costs is to be watched: more time, or less per second. None is good, too few values unknown. */
export function stateOfDifference(one: Difference, unit: string): State {
  if (one.verdict === "same") return "good";
  if (one.verdict !== "more" && one.verdict !== "less") return "unknown";
  const costs = RATES.test(unit) ? one.verdict === "less" : one.verdict === "more";
  return costs ? "watch" : "good";
}

export interface Interval {
  readonly at: number; // of the common scale, 0 to 1
  readonly low: number;
  readonly high: number;
}

/** Both sides on one scale from 0 to the largest end of an interval; null for a side without a value. */
export function onScale(one: Difference): { a: Interval | null; b: Interval | null } {
  const ends = [one.a, one.b].flatMap((side) => [side.value, side.high]).filter((value) => value !== null);
  const most = Math.max(0, ...ends);
  const of = (side: Quantile): Interval | null =>
    side.value === null || most <= 0
      ? null
      : {
          at: side.value / most,
          low: (side.low ?? side.value) / most,
          high: (side.high ?? side.value) / most,
        };
  return { a: of(one.a), b: of(one.b) };
}

/** `cuda 12.1 (6), 12.4 (2)`: values of a setting by how many members have them; the count where not all agree. */
export function valueWords(values: Readonly<Record<string, number>>): string {
  const told = Object.entries(values);
  if (!told.length) return "no data";
  return told.map(([value, members]) => (told.length > 1 ? `${value} (${members})` : value)).join(", ");
}
