// The five states, each with a colour and a shape (parts/State.svelte); the words of the API in them.

export type State = "good" | "watch" | "bad" | "unknown" | "suppressed";

const WORSE: readonly State[] = ["good", "suppressed", "unknown", "watch", "bad"];

const OF: Readonly<Record<string, State>> = {
  ok: "good",
  good: "good",
  up: "good",
  healthy: "good",
  met: "good",
  fresh: "good",
  warning: "watch",
  watch: "watch",
  degraded: "watch",
  late: "watch",
  thin: "watch",
  critical: "bad",
  bad: "bad",
  down: "bad",
  failed: "bad",
  burning: "bad",
  error: "bad",
  suppressed: "suppressed",
  maintenance: "suppressed",
  drained: "suppressed",
};

/** What a word of the API is drawn as. A word that nobody knows is unknown, never good. */
export function stateOf(word: string | null | undefined): State {
  return OF[(word ?? "").toLowerCase()] ?? "unknown";
}

/** The worst of some; unknown of none, since nothing was seen. */
export function worst(states: Iterable<State>): State {
  let found = -1;
  for (const state of states) found = Math.max(found, WORSE.indexOf(state));
  return WORSE[found] ?? "unknown";
}
