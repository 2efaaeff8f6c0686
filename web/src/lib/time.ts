// Times: nanoseconds since 1970 as the API tells them. As JavaScript numbers they are exact to 256 ns in this century,
// which is finer than anything that is drawn; differences that must be finer come from the API as differences.

import { duration } from "./units";

export const S = 1e9;

/** A moment as a Date, to the millisecond. */
export function dateOf(ns: number): Date {
  return new Date(Math.round(ns / 1e6));
}

/** `13:41:07` of today, `2026-11-20 13:41:07` of another day; UTC. */
export function clock(ns: number, nowNs?: number): string {
  const text = dateOf(ns).toISOString();
  const same = nowNs !== undefined && dateOf(nowNs).toISOString().slice(0, 10) === text.slice(0, 10);
  return same ? text.slice(11, 19) : `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

/** With milliseconds, for the moment under the pointer. */
export function exactClock(ns: number): string {
  const text = dateOf(ns).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 23)} UTC`;
}

/** The same moment where the reader is: what a hover shows. */
export function localClock(ns: number, zone?: string): string {
  return new Intl.DateTimeFormat("en-GB", {
    dateStyle: "medium",
    timeStyle: "long",
    ...(zone ? { timeZone: zone } : {}),
  }).format(dateOf(ns));
}

/** `41 s ago`. */
export function ago(ns: number, nowNs: number): string {
  const seconds = (nowNs - ns) / S;
  return seconds < 1 ? "now" : `${duration(Math.round(seconds))} ago`;
}

/** The span that the page shows: the last so many seconds of a moving now, or two fixed times. */
export type Span = { readonly lastS: number } | { readonly fromNs: number; readonly toNs: number };

export const SPANS: readonly { readonly text: string; readonly lastS: number }[] = [
  { text: "last 5 min", lastS: 300 },
  { text: "last 15 min", lastS: 900 },
  { text: "last 1 h", lastS: 3600 },
  { text: "last 6 h", lastS: 21_600 },
  { text: "last 24 h", lastS: 86_400 },
  { text: "last 7 d", lastS: 604_800 },
];

export const DEFAULT_SPAN = { lastS: 3600 } as const;

/** The two ends of a span at a moment. */
export function ends(span: Span, nowNs: number): { fromNs: number; toNs: number } {
  return "lastS" in span ? { fromNs: nowNs - span.lastS * S, toNs: nowNs } : span;
}
