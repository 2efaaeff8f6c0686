// What the explorer asks for, as the URL says it, and the lines it draws.

import type { components } from "../../api/schema";
import type { Line } from "../../lib/plot";

export type Found = components["schemas"]["ExploreAnswer"];

export interface Wanted {
  readonly name: string;
  readonly where: string;
  readonly by: string;
  readonly rate: "auto" | "on" | "off";
  readonly combine: "auto" | "sum" | "mean" | "largest";
  readonly show: "auto" | "lines" | "band";
}

export const RATES = ["auto", "on", "off"] as const;
export const COMBINES = ["auto", "sum", "mean", "largest"] as const;
export const SHOWS = ["auto", "lines", "band"] as const;

/** What the URL asks for; a word that means nothing is as if it were not there. */
export function askedOf(params: URLSearchParams): Wanted {
  return {
    name: params.get("name") ?? "",
    where: params.get("where") ?? "",
    by: params.get("by") ?? "",
    rate: one(RATES, params.get("rate")),
    combine: one(COMBINES, params.get("combine")),
    show: one(SHOWS, params.get("show")),
  };
}

function one<T extends string>(known: readonly [T, ...T[]], told: string | null): T {
  return known.find((each) => each === told) ?? known[0];
}

const LINES = 8; // that can be told apart in one plot

/** Whether the lines are drawn one by one, or as a band: a band where they are too many to tell apart. */
export function asBand(wanted: Pick<Wanted, "show">, found: Pick<Found, "lines_total" | "band">): boolean {
  if (wanted.show !== "auto" || !found.band) return wanted.show === "band" && found.band !== null;
  return found.lines_total > LINES;
}

/** The lines of the plot: one by one, or the band with those that somebody chose from the table. */
export function drawnLines(found: Found, band: boolean, chosen: ReadonlySet<string>): Line[] {
  const some = found.lines.filter((line) => (chosen.size ? chosen.has(line.label) : !band));
  const own = some.map((line): Line => ({
    label: line.label,
    values: line.mean,
    ...(line.low && line.high && some.length <= 2 ? { low: line.low, high: line.high } : {}),
  }));
  if (!band || !found.band) return own.slice(0, chosen.size || found.lines.length);
  const { count, median, low, high } = found.band;
  return [...own, { label: `median of ${count}`, values: median, low, high, colour: "faint", dashed: true }];
}

/** A filter with one more matcher; a value with blanks or quotes is quoted. */
export function withMatcher(where: string, label: string, value: string): string {
  const quoted = /[\s"'\\]/.test(value) ? `"${value.replace(/(["\\])/g, "\\$1")}"` : value;
  return `${where} ${label}=${quoted}`.trim();
}
