// Incidents in words: states, headlines, which fact is which piece of evidence, the timeline, what may be plotted.

import type { components } from "../api/schema";
import type { Overlay } from "./plot";
import type { State } from "./state";
import { S } from "./time";
import { duration } from "./units";

export type Incident = components["schemas"]["IncidentAnswer"];
export type Cause = components["schemas"]["CauseAnswer"];
export type Evidence = components["schemas"]["Evidence"];
export type Explained = components["schemas"]["ExplainedIncident"];
export type Mark = components["schemas"]["MarkAnswer"];

const SYMPTOM_WORDS: Readonly<Record<string, string>> = {
  slow: "slow",
  stall: "standing still",
  crash: "crashed",
  sle: "below its expectation",
  "telemetry-lost": "sends no data",
  "name-shared": "shares its name with another job",
};

/** The state by colour and shape: what lasts is bad, or unknown where no cause is named; over is quiet. */
export function stateOfIncident(
  one: Pick<Incident, "state" | "suppressed" | "verdict" | "unwatched">,
): State {
  if (one.suppressed) return "suppressed";
  if (one.state !== "open") return one.unwatched ? "unknown" : "good";
  return one.verdict === "known" ? "bad" : "watch";
}

/** Whether it lasted at a moment, which may be long ago. */
export function openAt(one: Pick<Incident, "state" | "start_ns" | "end_ns">, atNs: number): boolean {
  return one.start_ns <= atNs && (one.end_ns === null ? one.state === "open" : one.end_ns > atNs);
}

/** `open`, `over`, `open, suppressed: maintenance`; of one that is open for a dead part, that it waits for its reset. */
export function stateWords(
  one: Pick<Incident, "state" | "suppressed" | "unwatched"> & Partial<Pick<Incident, "held">>,
): string {
  const ended = one.unwatched
    ? "not watched since"
    : one.held
      ? "open until the dead part is reset"
      : one.state;
  return one.suppressed ? `${ended}, suppressed: ${one.suppressed}` : ended;
}

/** What is wrong, in the words of the cause before its evidence: `link:h3/eth0~leaf1/e3 lost its carrier`. */
export function headline(cause: Pick<Cause, "text" | "rule" | "entity">): string {
  const text = cause.text.split(": ")[0]?.trim() ?? "";
  return text && text.length < 200 ? text : `${cause.rule} at ${cause.entity}`;
}

/** Why a cause that was considered is not named: what its text says after the colon. */
export function whyNot(cause: Pick<Cause, "text">): string {
  const at = cause.text.indexOf(": ");
  return at < 0 ? cause.text : cause.text.slice(at + 2);
}

/** How long it lasted, or lasts, in seconds. */
export function lasted(
  one: Pick<Incident, "start_ns" | "end_ns" | "seen_ns" | "state"> &
    Partial<Pick<Incident, "held" | "over_ns">>,
  nowNs: number,
): number {
  const over = one.held ? one.over_ns : one.end_ns; // nobody suffers of what waits for its reset
  const end = over ?? (one.state === "open" ? Math.max(nowNs, one.seen_ns) : one.seen_ns);
  return Math.max(0, (end - one.start_ns) / S);
}

/** `2.0 s before`, `0.6 s after`; with a question mark where the clocks order nothing. */
export function order(piece: Pick<Evidence, "after_s" | "order">): string {
  if (piece.after_s === null) return "";
  if (piece.order === "together") return "together";
  const size = Math.abs(piece.after_s);
  const words = size < 0.05 ? "at once" : `${duration(size)} ${piece.after_s < 0 ? "before" : "after"}`;
  return piece.order === "unknown" ? `${words}?` : words;
}

/** The metric of a piece of evidence that can be drawn; empty for an event or a sentence. */
export function metricOf(piece: Pick<Evidence, "table" | "what">): string {
  return piece.table === "anomaly" ? piece.what : "";
}

/** The span around an incident that shows what was before and after it. */
export function around(one: Pick<Incident, "start_ns" | "end_ns" | "seen_ns" | "causes">): {
  fromNs: number;
  toNs: number;
} {
  const times = one.causes.flatMap((cause) => cause.evidence.map((piece) => piece.time_ns ?? one.start_ns));
  const first = Math.max(Math.min(one.start_ns, ...times), one.start_ns - 600 * S);
  const last = one.end_ns ?? one.seen_ns;
  const room = Math.max(60 * S, 0.3 * (last - one.start_ns));
  return {
    fromNs: first - room,
    toNs: Math.min(last, one.start_ns + 3600 * S) + (one.end_ns === null ? 5 * S : room),
  };
}

export interface Cited {
  readonly cause: number; // among the named ones
  readonly piece: number; // of its evidence; -1: the cause itself
}

/** Which cause or piece of evidence each fact of an explanation is, by its number: facts are told in their order. */
export function citedBy(facts: Explained["facts"]): Map<number, Cited> {
  const found = new Map<number, Cited>();
  let cause = -1;
  let piece = -1;
  for (const fact of facts) {
    if (fact.kind === "cause") {
      cause += 1;
      piece = -1;
      found.set(fact.number, { cause, piece });
    } else if (fact.kind === "evidence" && cause >= 0) {
      piece += 1;
      found.set(fact.number, { cause, piece });
    }
  }
  return found;
}

export interface Moment {
  readonly timeNs: number;
  readonly what: string;
  readonly kind: "evidence" | "symptom" | "told" | "mark" | "over";
  readonly entity?: string;
}

/** What happened, in order: evidence, symptoms, when it was reported, feedback. */
export function timeline(one: Incident, marks: readonly Mark[]): Moment[] {
  const found: Moment[] = [];
  const seen = new Set<string>();
  for (const cause of one.causes)
    for (const piece of cause.evidence) {
      const key = `${piece.time_ns} ${piece.entity} ${piece.what}`;
      if (piece.time_ns === null || seen.has(key)) continue;
      seen.add(key);
      found.push({ timeNs: piece.time_ns, what: piece.text, kind: "evidence", entity: piece.entity });
    }
  for (const symptom of one.symptoms) {
    const name = SYMPTOM_WORDS[symptom.symptom] ?? symptom.symptom;
    if (symptom.start_ns !== null)
      found.push({
        timeNs: symptom.start_ns,
        what: `${name}: first lost second`,
        kind: "symptom",
        entity: symptom.entity,
      });
    if (symptom.end_ns !== null)
      found.push({
        timeNs: symptom.end_ns,
        what: `no longer ${name}`,
        kind: "symptom",
        entity: symptom.entity,
      });
  }
  found.push({ timeNs: one.reported_ns, what: "reported as an incident", kind: "told" });
  if (one.end_ns !== null) found.push({ timeNs: one.end_ns, what: "over", kind: "over" });
  for (const mark of marks) {
    const about = mark.rule ? ` ${mark.rule} at ${mark.entity}` : "";
    const why = mark.reason ? `: ${mark.reason}` : "";
    found.push({
      timeNs: mark.time_ns,
      what: said(mark, about, why),
      kind: "mark",
    });
  }
  return found.sort((a, b) => a.timeNs - b.timeNs);
}

function said(mark: Mark, about: string, why: string): string {
  const who = mark.actor || "somebody";
  if (mark.mark === "comment") return `${who}${why}`;
  if (mark.mark === "assigned") return `${who} assigned it to ${mark.reason || "nobody"}`;
  return `${who} marked${about} ${mark.mark}${why}`;
}

/** Incidents that say the same of the same: the newest of them, and how often. */
export interface Repeated<T> {
  readonly one: T;
  readonly all: readonly T[];
  readonly lost: number;
}

type Alike = Pick<
  Incident,
  | "tenant"
  | "cluster"
  | "job"
  | "entity"
  | "symptom"
  | "state"
  | "suppressed"
  | "lost_gpu_seconds"
  | "start_ns"
> & { readonly causes: readonly Pick<Cause, "entity" | "rule">[] };

/** Incidents with repeats as one line, where its first stood. An open one is never hidden behind one that is over. */
export function repeats<T extends Alike>(incidents: readonly T[]): Repeated<T>[] {
  const found = new Map<string, T[]>();
  for (const one of incidents) {
    const causes = one.causes.map((each) => `${each.rule} ${each.entity}`);
    const { tenant, cluster, job, entity, symptom, state, suppressed } = one;
    const key = JSON.stringify([tenant, cluster, job, entity, symptom, state, suppressed, causes]);
    const same = found.get(key);
    if (same) same.push(one);
    else found.set(key, [one]);
  }
  return [...found.values()].map((all) => ({
    one: all.reduce((newest, each) => (each.start_ns > newest.start_ns ? each : newest)),
    all,
    lost: all.reduce((sum, each) => sum + each.lost_gpu_seconds, 0),
  }));
}

export interface Bar {
  readonly fromNs: number;
  readonly critical: number;
  readonly warning: number;
}

/** How many incidents began in each of `n` equal parts of a span. */
export function bars(
  incidents: readonly Pick<Incident, "start_ns" | "severity">[],
  ends: { readonly fromNs: number; readonly toNs: number },
  n: number,
): Bar[] {
  const widthNs = (ends.toNs - ends.fromNs) / n;
  const found = Array.from({ length: n }, (_, at) => ({
    fromNs: ends.fromNs + at * widthNs,
    critical: 0,
    warning: 0,
  }));
  for (const one of incidents) {
    const bar = found[Math.floor((one.start_ns - ends.fromNs) / widthNs)];
    if (bar) bar[one.severity === "critical" ? "critical" : "warning"] += 1;
  }
  return found;
}

/** Events of an incident for the time axis of its plots. */
export function overlaysOf(one: Incident): Overlay[] {
  const found: Overlay[] = [];
  for (const moment of timeline(one, [])) {
    if (moment.kind === "evidence")
      found.push({ timeNs: moment.timeNs, text: `${moment.entity ?? ""} ${moment.what}`, state: "watch" });
  }
  return found;
}

/** What people said of an incident as a whole, the newest first. */
export function comments(marks: readonly Mark[]): Mark[] {
  return marks.filter((mark) => mark.mark === "comment").sort((a, b) => b.time_ns - a.time_ns);
}

/** Whose an incident is: the newest word on it; undefined where nobody said, or it was given back. */
export function assigned(marks: readonly Mark[]): Mark | undefined {
  const newest = marks
    .filter((mark) => mark.mark === "assigned")
    .reduce<Mark | undefined>((last, one) => (last && last.time_ns >= one.time_ns ? last : one), undefined);
  return newest?.reason ? newest : undefined;
}

/** By `tenant incident`, to whom each is assigned now. */
export function assignees(marks: readonly Mark[]): ReadonlyMap<string, string> {
  const by = new Map<string, Mark[]>();
  for (const mark of marks) {
    const key = `${mark.tenant} ${mark.incident}`;
    by.set(key, [...(by.get(key) ?? []), mark]);
  }
  return new Map([...by].map(([key, some]) => [key, assigned(some)?.reason ?? ""]));
}

/** The newest mark of each person about a cause, or (no rule) about the incident as a whole. */
export function newestMarks(marks: readonly Mark[], entity: string, rule: string): Mark[] {
  const found = new Map<string, Mark>();
  for (const mark of marks) {
    if (mark.mark === "comment" || mark.mark === "assigned") continue; // judges nothing
    if (mark.rule !== rule || (rule && mark.entity !== entity)) continue;
    const known = found.get(mark.actor);
    if (!known || known.time_ns < mark.time_ns) found.set(mark.actor, mark);
  }
  return [...found.values()];
}
