// What a plot draws, worked out without a canvas: gaps, stacks, ranges, words of its axes.

import { S } from "./time";
import { duration, inUnit } from "./units";

export type Values = readonly (number | null)[];

export interface Line {
  readonly label: string;
  readonly values: Values;
  readonly low?: Values; // of each bin, drawn as a band
  readonly high?: Values;
  readonly colour?: string; // a variable of app.css, without its dashes; by place if none
  readonly dashed?: boolean;
  readonly hatched?: boolean; // of a stack: what is not known
  readonly whole?: number; // told where nothing is pointed at, such as the mean; else the last value
}

/** Something that happened, on the time axis. */
export interface Overlay {
  readonly timeNs: number;
  readonly endNs?: number | null;
  readonly text: string;
  readonly state?: "good" | "watch" | "bad" | "unknown" | "suppressed";
  readonly href?: string;
}

export interface Gap {
  readonly fromNs: number;
  readonly toNs: number;
}

const GAP_INTERVALS = 3.5; // a stream that was silent for longer than this many of its own intervals was missing
const GAP_MIN_NS = 1.5 * S;

/** How far apart two values may be before what is between them counts as missing: by the middle distance of all. */
export function gapAfter(timeNs: readonly number[], lines: readonly Line[]): number {
  const apart: number[] = [];
  for (const line of lines) {
    let last: number | undefined;
    line.values.forEach((value, at) => {
      const now = timeNs[at];
      if (value === null || now === undefined) return;
      if (last !== undefined) apart.push(now - last);
      last = now;
    });
  }
  if (!apart.length) return GAP_MIN_NS;
  apart.sort((a, b) => a - b);
  return Math.max(GAP_MIN_NS, GAP_INTERVALS * (apart[apart.length >> 1] ?? 0));
}

/** Where a line has no value for longer than `afterNs`; with ends, also before its first and after its last. */
export function gapsOf(
  timeNs: readonly number[],
  values: Values,
  afterNs: number,
  ends?: { readonly fromNs: number; readonly toNs: number },
): Gap[] {
  const found: Gap[] = [];
  let last = ends?.fromNs;
  values.forEach((value, at) => {
    const now = timeNs[at];
    if (value === null || now === undefined) return;
    if (last !== undefined && now - last > afterNs) found.push({ fromNs: last, toNs: now });
    last = now;
  });
  if (ends && last !== undefined && ends.toNs - last > afterNs) found.push({ fromNs: last, toNs: ends.toNs });
  return found;
}

/** Where none of the lines has a value: nothing is known there. */
export function blind(
  timeNs: readonly number[],
  lines: readonly Line[],
  afterNs: number,
  ends: { readonly fromNs: number; readonly toNs: number },
): Gap[] {
  const any = timeNs.map((_, at) => lines.find((line) => line.values[at] !== null)?.values[at] ?? null);
  return gapsOf(timeNs, any, afterNs, ends);
}

/** Lines one on top of the other. A moment in which one is not known has no stack. */
export function stacked(lines: readonly Line[]): (number | null)[][] {
  const out: (number | null)[][] = [];
  let below: (number | null)[] = (lines[0]?.values ?? []).map(() => 0);
  for (const line of lines) {
    below = below.map((sum, at) => {
      const value = line.values[at];
      return sum === null || value === null || value === undefined ? null : sum + value;
    });
    out.push(below);
  }
  return out;
}

/** The ends of a value axis: from zero where that does not hide the change; some room above. */
export function valueRange(least: number | null, most: number | null): [number, number] {
  if (least === null || most === null || !Number.isFinite(least) || !Number.isFinite(most)) return [0, 1];
  const size = most - least;
  if (size === 0) return most === 0 ? [0, 1] : most > 0 ? [0, most * 1.3] : [most * 1.3, 0];
  const room = size * 0.1;
  if (least >= 0 && least < 0.6 * most) return [0, most + room];
  if (most <= 0 && most > 0.6 * least) return [least - room, 0];
  return [least - room, most + room];
}

/** A moment of the time axis, as fine as its marks are apart: `20 Nov`, `13:41`, `13:41:07`, `13:41:07.250`; UTC. */
export function tick(seconds: number, apartS: number): string {
  const text = new Date(Math.round(seconds * 1000)).toISOString();
  const midnight = text.slice(11, 23) === "00:00:00.000";
  if (apartS >= 86_400 || (midnight && apartS >= 60)) return `${Number(text.slice(8, 10))} ${month(text)}`;
  if (apartS >= 60) return text.slice(11, 16);
  return apartS >= 1 ? text.slice(11, 19) : text.slice(11, 23);
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function month(iso: string): string {
  return MONTHS[Number(iso.slice(5, 7)) - 1] ?? "";
}

// Distances of marks on a time axis that people read easily, in seconds.
export const INCREMENTS_S = [
  0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
  86_400, 172_800, 604_800,
];

/** Moments that are marked on a time axis, at most so many, and how far apart they are; s. */
export function marksOf(fromS: number, toS: number, most: number): { atS: number[]; apartS: number } {
  const apartS =
    INCREMENTS_S.find((each) => (toS - fromS) / each <= Math.max(1, most)) ?? Math.max(1, toS - fromS);
  const atS: number[] = [];
  for (let at = Math.ceil(fromS / apartS); at * apartS <= toS; at += 1) atS.push(at * apartS);
  return { atS, apartS };
}

/** The last value of a line that is known. */
export function lastOf(values: Values): number | null {
  for (let at = values.length - 1; at >= 0; at -= 1) {
    const value = values[at];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** A plot in a sentence, for those who do not see it. */
export function spoken(
  name: string,
  timeNs: readonly number[],
  lines: readonly Line[],
  unit: string,
  format: (value: number) => string = (value) => inUnit(value, unit),
): string {
  const first = timeNs[0];
  const last = timeNs[timeNs.length - 1];
  if (first === undefined || last === undefined) return `${name}: no values`;
  const parts = lines.map((line) => {
    const known = line.values.filter((value) => value !== null);
    if (!known.length) return `${line.label}: no values`;
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return `${line.label}: ${format(least)} to ${format(most)}, last ${format(known[known.length - 1] ?? 0)}`;
  });
  return `${name}, ${duration((last - first) / S)}. ${parts.join("; ")}`;
}

/** The path of a sparkline; it begins anew after a gap. */
export function sparkPath(
  timeNs: readonly number[],
  values: Values,
  gapNs: number,
  x: (ns: number) => number,
  y: (value: number) => number,
): string {
  let last: number | undefined;
  let path = "";
  values.forEach((value, at) => {
    const now = timeNs[at];
    if (value === null || now === undefined) return;
    const pen = last === undefined || now - last > gapNs ? "M" : "L";
    path += `${pen}${x(now).toFixed(1)} ${y(value).toFixed(1)}`;
    last = now;
  });
  return path;
}

const FINGER_PX = 24; // WCAG 2.2, target size: links nearer than this to each other cannot be hit for sure

/** Marks with their links, without the links of those that are too near to the link before them. */
export function apart<M extends { readonly x: number; readonly href?: string | undefined }>(
  marks: readonly M[],
): M[] {
  let before = -Infinity;
  return [...marks]
    .sort((a, b) => a.x - b.x)
    .map((mark) => {
      if (!mark.href) return mark;
      if (mark.x - before < FINGER_PX) return { ...mark, href: undefined };
      before = mark.x;
      return mark;
    });
}
