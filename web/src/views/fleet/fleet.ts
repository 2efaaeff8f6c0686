// What the fleet's answer means on the page: values against their bound, groups, filters, words of one host.

import type { components } from "../../api/schema";
import type { State } from "../../lib/state";
import { bitRate, duration, figures, percent } from "../../lib/units";
import type { Group } from "./layout";

/** `7 of 8 NICs healthy`, of those whose carrier is known: what has no data is not called sick. */
export function nicWords(healthy: number, total: number, unknown: number): string {
  const known = total - unknown;
  const rest = unknown ? `${unknown} unknown` : "";
  if (!known) return total ? `carrier of ${total} ${total === 1 ? "NIC" : "NICs"} not known` : "no NIC known";
  return `${healthy} of ${known} NICs healthy${rest ? `, ${rest}` : ""}`;
}

export type Fleet = components["schemas"]["FleetAnswer"];
export type Way = "inbound" | "outbound";
export type By = "state" | "loss" | "errors" | "load" | "delay";

export interface Measure {
  readonly by: By;
  readonly title: string;
  readonly means: string;
  readonly least: number; // the bound is never below this
  readonly times: number; // ... and this many times the median of the fleet; 0: fixed
  readonly of?: (fleet: Fleet, way: Way) => readonly (number | null)[];
  readonly format: (value: number) => string;
  readonly unit: readonly [string, number]; // in which its bound is typed, and how many of it one of the API's are
}

export const MEASURES: readonly Measure[] = [
  {
    by: "state",
    title: "state",
    means: "named cause of an open incident, or a metric far outside",
    least: 0,
    times: 0,
    format: String,
    unit: ["", 1],
  },
  {
    by: "loss",
    title: "suspected loss",
    means: "drops, retransmissions and discards, of all packets",
    least: 0.001,
    times: 3,
    of: (fleet, way) => fleet.loss[way],
    format: percent,
    unit: ["%", 100],
  },
  {
    by: "errors",
    title: "errors",
    means: "received or sent wrong",
    least: 1,
    times: 3,
    of: (fleet, way) => fleet.errors[way],
    format: (value) => `${figures(value)}/s`,
    unit: ["/s", 1],
  },
  {
    by: "load",
    title: "load",
    means: "busiest port, of its speed",
    least: 0.9,
    times: 0,
    of: (fleet, way) => fleet.load[way],
    format: percent,
    unit: ["%", 100],
  },
  {
    by: "delay",
    title: "delay",
    means: "p99 one way, median of its peers",
    least: 20_000,
    times: 3,
    of: (fleet, way) => fleet.delay_ns[way],
    format: (value) => duration(value / 1e9),
    unit: ["µs", 1e-3],
  },
];

export function measureOf(name: string): Measure {
  return MEASURES.find((one) => one.by === name) ?? (MEASURES[0] as Measure);
}

/** The bound that colours: what was asked for, else the least or so many times the fleet's median. */
export function boundOf(measure: Measure, values: readonly (number | null)[], asked: number): number {
  if (asked > 0) return asked;
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  const median = known[known.length >> 1] ?? 0;
  return Math.max(measure.least, measure.times * median);
}

// Classes of tiles, in the order of the API's `states`.
export const STATES: readonly State[] = ["good", "suppressed", "unknown", "watch", "bad"];
export const [GOOD, SUPPRESSED, UNKNOWN, WATCH, BAD] = [0, 1, 2, 3, 4];

/** The class of each host: its state, or its value against the bound (watched from half of it). */
export function classesOf(fleet: Fleet, measure: Measure, way: Way, bound: number): Uint8Array {
  const values = measure.of?.(fleet, way);
  if (!values) {
    const code = fleet.states.map((name) => Math.max(0, STATES.indexOf(name as State)));
    return Uint8Array.from(fleet.state, (state) => code[state] ?? UNKNOWN);
  }
  return Uint8Array.from(values, (value) =>
    value === null ? UNKNOWN : value >= bound ? BAD : value >= bound / 2 ? WATCH : GOOD,
  );
}

/** How many of each class. */
export function counted(classes: Uint8Array): number[] {
  const counts = [0, 0, 0, 0, 0];
  for (const one of classes) counts[one] = (counts[one] ?? 0) + 1;
  return counts;
}

const NOWHERE = "no data";

/** The fleet by place: the widest told (pod, then ECMP group), racks in it. Without either one group. */
export function byPlace(fleet: Pick<Fleet, "hosts" | "tags">): Group[] {
  const tag = (name: string) => fleet.tags.find((one) => one.name === name && one.values.length > 0);
  const inner = tag("rack") ?? tag("ecmp");
  const outer = inner?.name === "rack" ? (tag("pod") ?? tag("ecmp")) : tag("pod");
  return nested(fleet.hosts.length, outer, inner);
}

type Tag = Fleet["tags"][number];

function nested(hosts: number, outer: Tag | undefined, inner: Tag | undefined): Group[] {
  const groups = new Map<string, Map<string, number[]>>();
  const name = (tag: Tag | undefined, host: number): string =>
    tag ? (tag.values[tag.of[host] ?? -1] ?? NOWHERE) : "";
  const order = Array.from({ length: hosts }, (_, host) => host).sort(
    (a, b) => rank(outer, a) - rank(outer, b) || rank(inner, a) - rank(inner, b) || a - b,
  );
  for (const host of order) {
    const some = groups.get(name(outer, host)) ?? new Map<string, number[]>();
    groups.set(name(outer, host), some);
    const list = some.get(name(inner, host)) ?? [];
    some.set(name(inner, host), list);
    list.push(host);
  }
  return [...groups].map(([title, some]) => ({
    name: titled(outer, title),
    inner: [...some].map(([innerName, list]) => ({ name: titled(inner, innerName), hosts: list })),
  }));
}

function rank(tag: Tag | undefined, host: number): number {
  const code = tag ? (tag.of[host] ?? -1) : 0;
  return code < 0 ? Infinity : code;
}

/** A tag as people call it. */
export function tagName(name: string): string {
  return name === "ecmp" ? "ECMP group" : name;
}

function titled(tag: Tag | undefined, name: string): string {
  if (!tag || !name) return "";
  return name === NOWHERE ? `${tagName(tag.name)} ${name}` : name;
}

/** The fleet by job: those of each job together, in the order of hosts; hosts of none last. */
export function byJob(fleet: Pick<Fleet, "jobs" | "jobs_of">): Group[] {
  const of = new Map<number, number[]>();
  fleet.jobs_of.forEach((jobs, host) => {
    const job = jobs[0] ?? -1;
    const list = of.get(job) ?? [];
    of.set(job, list);
    list.push(host);
  });
  return [...of]
    .sort(([a, x], [b, y]) => Number(a < 0) - Number(b < 0) || y.length - x.length || a - b)
    .map(([job, hosts]) => ({
      name: job < 0 ? "no job" : (fleet.jobs[job]?.job ?? ""),
      inner: [{ name: "", hosts }],
    }));
}

/** Which hosts fit a text: all of its words, each in a name, tag, job, state or reason; undefined: everything does. */
export function matching(
  fleet: Fleet,
  text: string,
  atAddress: readonly number[] | null,
): Uint8Array | undefined {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return undefined;
  const out = new Uint8Array(fleet.hosts.length);
  const addressed = new Set(atAddress ?? []);
  const reasons = new Map<number, string>();
  for (const one of fleet.reasons)
    reasons.set(one.host, `${reasons.get(one.host) ?? ""} ${one.text} ${one.entity}`.toLowerCase());
  const tags = fleet.tags.map((tag) => ({
    of: tag.of,
    values: tag.values.map((value) => value.toLowerCase()),
  }));
  const jobs = fleet.jobs.map((job) => job.job.toLowerCase());
  for (let host = 0; host < out.length; host += 1) {
    const fits = words.every(
      (word) =>
        fleet.hosts[host]?.toLowerCase().includes(word) ||
        fleet.states[fleet.state[host] ?? 0] === word ||
        tags.some((tag) => tag.values[tag.of[host] ?? -1]?.includes(word)) ||
        fleet.jobs_of[host]?.some((job) => jobs[job]?.includes(word)) ||
        reasons.get(host)?.includes(word) ||
        (isAddress(word) && addressed.has(host)),
    );
    out[host] = Number(fits);
  }
  return out;
}

/** Whether a word looks like (part of) an address, which only the server knows. */
export function isAddress(word: string): boolean {
  return /^[0-9]+\.[0-9.]*$|^[0-9a-f]*:[0-9a-f:]+$/i.test(word);
}

/** Values of one host, in words, of both directions. */
export function valuesOf(fleet: Fleet, host: number): { title: string; inbound: string; outbound: string }[] {
  const told = (value: number | null | undefined, format: (value: number) => string): string =>
    value === null || value === undefined ? "unknown" : format(value);
  const rows = MEASURES.filter((one) => one.of).map((one) => ({
    title: one.title,
    inbound: told(one.of?.(fleet, "inbound")[host], one.format),
    outbound: told(one.of?.(fleet, "outbound")[host], one.format),
  }));
  const rate = (way: Way): string => told(fleet.bytes_per_s[way][host], bitRate);
  return [...rows, { title: "throughput", inbound: rate("inbound"), outbound: rate("outbound") }];
}

/** The mean of what is known; null if nothing is. */
export function meanOf(values: readonly (number | null)[]): { mean: number | null; known: number } {
  let [sum, known] = [0, 0];
  for (const value of values) {
    if (value === null) continue;
    sum += value;
    known += 1;
  }
  return { mean: known ? sum / known : null, known };
}
