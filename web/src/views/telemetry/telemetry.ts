// Words and states of telemetry: who sends, how fresh, what nobody tells.

import type { components } from "../../api/schema";
import type { Answer } from "../../lib/api";
import type { State } from "../../lib/state";
import { figures } from "../../lib/units";

export type Telemetry = Answer<"/api/v1/telemetry">;
export type Source = components["schemas"]["TelemetrySource"];
export type Kind = components["schemas"]["TelemetryKind"];
export type Cardinality = components["schemas"]["Cardinality"];
export type Analysis = components["schemas"]["StateAnswer"];

/** `quiet` is of what comes when something happens: no news of it is good. */
export function kindState(kind: Kind): State {
  if (kind.state === "fresh" || kind.state === "quiet") return "good";
  return kind.state === "late" ? "watch" : "unknown";
}

export function analysisState(one: Analysis): State {
  if (one.state === "ok") return "good";
  if (one.state === "behind") return "watch";
  return one.state === "failed" ? "bad" : "unknown";
}

/** `1,230 /s`; nothing measured is unknown. */
export function rate(perSecond: number | null): string {
  return perSecond === null ? "unknown" : `${figures(perSecond)} /s`;
}

/** What the page says first: how many senders, how many kinds, and what is amiss. */
export function headline(found: Telemetry): string {
  const late = found.sources.filter((one) => one.state !== "ok").length;
  const told = found.kinds.filter((one) => one.state !== "missing");
  const stale = told.filter((one) => one.state === "late").length;
  const parts = [
    found.recorded
      ? "a recording: no senders"
      : `${some(found.sources.length, "source")}${late ? `, ${late} late or in error` : ", all fresh"}`,
    `${told.length} of ${found.kinds.length} kinds of telemetry received${stale ? `, ${stale} late` : ""}`,
    `${found.refused.toLocaleString("en-US")} refused`,
  ];
  return parts.filter((part, at) => at < 2 || !found.recorded).join(" · ");
}

function some(count: number, what: string): string {
  return `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;
}

/** `bad_row 3, too_old 1 and 2 more reasons`. */
export function refusedWords(source: Source): string {
  const [first, second, ...rest] = source.refusals;
  if (!first) return "";
  const words = [first, second]
    .filter((one) => one !== undefined)
    .map((one) => `${one.reason} ${one.amount.toLocaleString("en-US")} ${one.unit}`);
  return words.join(", ") + (rest.length ? ` and ${some(rest.length, "more reason")}` : "");
}

/** Who tells a kind: `h1, h2 and 6 more`. */
export function tellers(kind: Kind): string {
  if (!kind.tellers_total) return "none";
  const named = kind.tellers.slice(0, 3).join(", ");
  const more = kind.tellers_total - Math.min(3, kind.tellers.length);
  return more > 0 ? `${named} and ${more} more` : named;
}

/** What a sender alone tells is lost with it; of the rest only its share is. */
export function lostWithout(source: Source): string {
  if (!source.without.length) return "nothing that an analysis reads";
  const words = source.without.join("; ");
  return source.alone.length ? words : `its share of: ${words}`;
}

/** How full the streams of a tenant are, 0 to 1. */
export function fill(one: Cardinality): number {
  return one.limit > 0 ? Math.min(1, one.streams / one.limit) : 0;
}

export function fillState(one: Cardinality): State {
  const share = fill(one);
  return share >= 1 ? "bad" : share >= 0.8 ? "watch" : "good";
}
