// Moments as people write them: the same forms as in the API and on the command line (src/leadline/views/times.py).
// `14:02`, `today`, `yesterday 14:02`, `-15m`, `now-6h`, `now-1d/d`, ISO 8601, ns since 1970.

import { S } from "./time";

export const FORMS = "14:02, today, yesterday, -15m, now-6h, now-1d/d or 2026-11-20T14:02";
export type Zone = "utc" | "local";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
const DAY = 86_400 * S;
const MONDAY = 4 * DAY; // 1970-01-01 was a Thursday: weeks begin on the fifth
const DAYS: Readonly<Record<string, string>> = { today: "now/d", yesterday: "now-1d/d" };

/** What is asked of a moment. `end`: it ends a span, so that of a whole day it is the end, but never past now. */
export interface Reading {
  readonly nowNs: number;
  readonly end?: boolean;
  readonly zone?: Zone;
}

/** A moment as ns since 1970; null for what is none. */
export function momentOf(text: string, { nowNs, end = false, zone = "utc" }: Reading): number | null {
  const plain = DAYS[text.trim()] ?? text.trim();
  if (/^\d{19}$/.test(plain)) return Number(plain);
  const relative = /^(?:now)?((?:[+-]\d+(?:\.\d+)?[smhdw])*)(?:\/([smhdw]))?$/.exec(plain);
  if (plain && relative && (plain.startsWith("now") || /^-[^/]*$/.test(plain)))
    return rounded(nowNs + offsets(relative[1] ?? ""), relative[2], nowNs, end, zone);
  const clock = /^(?:(today|yesterday)[ T]?)?(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(plain);
  if (clock) return ofDay(clock, nowNs, zone);
  return iso(plain, zone);
}

/** `-1d+2h` in ns. */
function offsets(text: string): number {
  let sum = 0;
  for (const [, sign, number, unit] of text.matchAll(/([+-])(\d+(?:\.\d+)?)([smhdw])/g))
    sum += Number(number) * (UNITS[unit ?? "s"] ?? 1) * S * (sign === "-" ? -1 : 1);
  return sum;
}

/** How far the reader's clock is ahead of UTC at a moment, ns. */
function ahead(ns: number, zone: Zone): number {
  return zone === "utc" ? 0 : -new Date(ns / 1e6).getTimezoneOffset() * 60 * S;
}

/** To the begin of its day (or other unit) in a zone, or to the end of that. */
function rounded(ns: number, unit: string | undefined, nowNs: number, end: boolean, zone: Zone): number {
  if (!unit) return ns;
  const size = (UNITS[unit] ?? 1) * S;
  const first = unit === "w" ? MONDAY : 0;
  const wall = ns + ahead(ns, zone);
  const begin = wall - ((((wall - first) % size) + size) % size) - ahead(ns, zone);
  return end ? Math.min(begin + size, Math.max(nowNs, begin)) : begin;
}

/** A time of day: of the day that is named, else the last one that was. */
function ofDay(parts: RegExpExecArray, nowNs: number, zone: Zone): number | null {
  const [hour, minute, second] = [Number(parts[2]), Number(parts[3]), Number(parts[4] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59) return null;
  const ns = rounded(nowNs, "d", nowNs, false, zone) + (hour * 3600 + minute * 60 + second) * S;
  return parts[1] === "yesterday" || (!parts[1] && ns > nowNs) ? ns - DAY : ns;
}

function iso(text: string, zone: Zone): number | null {
  if (!/^\d{4}-\d{2}-\d{2}([T ]\d{1,2}:\d{2}|$)/.test(text)) return null;
  const zoned = /T.*(Z|[+-]\d{2}:?\d{2})$/.test(text.replace(" ", "T"));
  const full = text.length === 10 ? `${text}T00:00` : text.replace(" ", "T");
  const parsed = Date.parse(zoned || zone === "local" ? full : `${full}Z`);
  return Number.isNaN(parsed) ? null : parsed * 1e6;
}
