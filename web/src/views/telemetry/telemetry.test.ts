import { expect, test } from "vitest";
import {
  type Cardinality,
  fill,
  fillState,
  headline,
  type Kind,
  kindState,
  lostWithout,
  rate,
  refusedWords,
  type Source,
  type Telemetry,
  tellers,
} from "./telemetry";

const SOURCE: Source = {
  tenant: "acme",
  way: "rows",
  name: "hook on h1",
  tells: ["step"],
  state: "ok",
  last_heard_s: 1,
  heard_ns: 1,
  newest_ns: 1,
  data_age_s: 1,
  interval_s: 1,
  requests: 10,
  samples: 0,
  rows: 100,
  refused: {},
  last_error: "",
  per_s: 10,
  refusals: [],
  do: "",
  without: ["goodput"],
  alone: [],
  feeds: ["ledger"],
};
const KIND: Kind = {
  kind: "step",
  what: "steps of jobs",
  table: "step",
  state: "fresh",
  newest_ns: 1,
  per_s: 1,
  streams: null,
  tellers: ["h1", "h2", "h3", "h4"],
  tellers_total: 9,
  without: "goodput",
  feeds: [],
  todo: "",
};
const FOUND: Telemetry = {
  schema: 1,
  at_ns: 1,
  recorded: false,
  sources: [SOURCE, { ...SOURCE, name: "x", state: "warning" }],
  kinds: [KIND, { ...KIND, state: "late" }, { ...KIND, state: "missing" }],
  cardinality: [],
  refused: 1200,
};

test("what is missing is unknown, what comes when something happens is good when it is quiet", () => {
  expect(
    ["fresh", "quiet", "late", "missing", "new word"].map((state) => kindState({ ...KIND, state })),
  ).toEqual(["good", "good", "watch", "unknown", "unknown"]);
});

test("headline", () => {
  expect(headline(FOUND)).toBe(
    "2 sources, 1 late or in error · 2 of 3 kinds of telemetry received, 1 late · 1,200 refused",
  );
  expect(headline({ ...FOUND, recorded: true, sources: [], kinds: [KIND] })).toBe(
    "a recording: no senders · 1 of 1 kinds of telemetry received",
  );
});

test("refusals by reason", () => {
  const one = { counter: "ingest_refused", severity: "error", doc: "", do: "", unit: "rows" };
  const refusals = ["bad_row", "too_old", "in_future"].map((reason, at) => ({
    ...one,
    reason,
    amount: 1500 - at,
  }));
  expect(refusedWords(SOURCE)).toBe("");
  expect(refusedWords({ ...SOURCE, refusals })).toBe(
    "bad_row 1,500 rows, too_old 1,499 rows and 1 more reason",
  );
});

test("what would be lost: all of it if nobody else tells it", () => {
  expect(lostWithout(SOURCE)).toBe("its share of: goodput");
  expect(lostWithout({ ...SOURCE, alone: ["step"] })).toBe("goodput");
  expect(lostWithout({ ...SOURCE, without: [] })).toBe("nothing that an analysis reads");
});

test("who tells, how fast", () => {
  expect(tellers(KIND)).toBe("h1, h2, h3 and 6 more");
  expect(tellers({ ...KIND, tellers: ["h1"], tellers_total: 1 })).toBe("h1");
  expect(tellers({ ...KIND, tellers: [], tellers_total: 0 })).toBe("none");
  expect(rate(null)).toBe("unknown");
  expect(rate(0)).toBe("0 /s");
});

test("streams against their limit", () => {
  const one: Cardinality = { tenant: "a", cluster: "c", streams: 850, names: 3, limit: 1000 };
  expect([fill(one), fillState(one)]).toEqual([0.85, "watch"]);
  expect(fillState({ ...one, streams: 1000 })).toBe("bad");
  expect(fillState({ ...one, streams: 10 })).toBe("good");
});
