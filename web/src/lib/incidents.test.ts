import { expect, test } from "vitest";
import {
  around,
  assigned,
  assignees,
  bars,
  citedBy,
  comments,
  headline,
  newestMarks,
  openAt,
  order,
  repeats,
  stateOfIncident,
  timeline,
  whyNot,
} from "./incidents";
import type { Cause, Evidence, Incident, Mark } from "./incidents";
import { S } from "./time";

test("an incident that is over was open while it lasted", () => {
  const over = { state: "over", start_ns: T, end_ns: T + 20 * S };
  expect([T - S, T, T + 19 * S, T + 20 * S].map((at) => openAt(over, at))).toEqual([
    false,
    true,
    true,
    false,
  ]);
  const open = { state: "open", start_ns: T, end_ns: null };
  expect([T - S, T + 99 * S].map((at) => openAt(open, at))).toEqual([false, true]);
});

const T = 1_795_206_000 * S;
const piece: Evidence = {
  table: "event",
  entity: "port:h3/eth0",
  what: "link-down",
  time_ns: T - S,
  bound_ns: null,
  text: "eth0 is down",
  after_s: -1,
  order: "before",
  code: "",
  times: 1,
  name: "",
  label: "",
  codes: {},
};
const cause = {
  entity: "link:h3/eth0~leaf1/e3",
  rule: "link-down",
  evidence: [piece, piece],
} as unknown as Cause;
const incident = {
  start_ns: T,
  end_ns: T + 20 * S,
  seen_ns: T + 30 * S,
  reported_ns: T + 8 * S,
  state: "over",
  causes: [cause],
  symptoms: [{ entity: "job:b", symptom: "slow", start_ns: T, end_ns: T + 20 * S }],
} as unknown as Incident;

test("what lasts is bad, what nobody explains is watched, what is over is quiet", () => {
  const one = { state: "open", suppressed: null, verdict: "known", unwatched: false };
  expect(stateOfIncident(one)).toBe("bad");
  expect(stateOfIncident({ ...one, verdict: "unknown" })).toBe("watch");
  expect(stateOfIncident({ ...one, state: "over" })).toBe("good");
  expect(stateOfIncident({ ...one, state: "over", unwatched: true })).toBe("unknown");
  expect(stateOfIncident({ ...one, suppressed: "drain" })).toBe("suppressed");
});

test("a headline is what is wrong, without the evidence", () => {
  const text = "link:h3/eth0~leaf1/e3 lost its carrier: link-down: eth0 is down. It explains 100%.";
  expect(headline({ ...cause, text })).toBe("link:h3/eth0~leaf1/e3 lost its carrier");
  expect(headline({ ...cause, text: "" })).toBe("link-down at link:h3/eth0~leaf1/e3");
  expect(whyNot({ text: "rank:b/5 on h6 was considered (slow-input) and rejected: it explains 20%." })).toBe(
    "it explains 20%.",
  );
});

test("an order that the clocks do not tell has a question mark", () => {
  expect(order(piece)).toBe("1 s before");
  expect(order({ after_s: 0.6, order: "unknown" })).toBe("600 ms after?");
  expect(order({ after_s: 0.001, order: "unknown" })).toBe("at once?");
  expect(order({ after_s: null, order: "unknown" })).toBe("");
});

test("citations lead to the evidence that they are about", () => {
  const kinds = ["symptom", "cause", "evidence", "evidence", "action", "cause", "evidence", "considered"];
  const found = citedBy(kinds.map((kind, at) => ({ number: at + 1, kind, text: "" })));
  expect(found.get(4)).toEqual({ cause: 0, piece: 1 });
  expect(found.get(6)).toEqual({ cause: 1, piece: -1 });
  expect(found.get(7)).toEqual({ cause: 1, piece: 0 });
  expect(found.get(1)).toBeUndefined();
});

test("the timeline is in order and tells nothing twice", () => {
  const mark: Mark = {
    tenant: "t",
    cluster: "c",
    incident: "i",
    entity: cause.entity,
    rule: "link-down",
    mark: "right",
    actor: "ann",
    reason: "swapped it",
    time_ns: T + 100 * S,
  };
  const found = timeline(incident, [mark]);
  expect(found.map((each) => each.kind)).toEqual(["evidence", "symptom", "told", "symptom", "over", "mark"]);
  expect(found.at(-1)?.what).toBe("ann marked link-down at link:h3/eth0~leaf1/e3 right: swapped it");
  expect(newestMarks([mark, { ...mark, mark: "wrong", time_ns: T }], cause.entity, "link-down")).toEqual([
    mark,
  ]);
  expect(newestMarks([mark], "host:h1", "link-down")).toEqual([]);
});

test("the span around an incident begins before its evidence", () => {
  const span = around(incident);
  expect(span.fromNs).toBeLessThan(T - S);
  expect(span.toNs).toBeGreaterThan(T + 20 * S);
});

const mark = (what: Mark["mark"], at: number, reason = "", actor = "kim"): Mark =>
  ({ mark: what, time_ns: at, reason, actor, rule: "", entity: "job:b" }) as Mark;

test("comments and who takes care are read beside the marks, and dismiss nothing", () => {
  const marks = [
    mark("dismissed", 1, "load test"),
    mark("comment", 2, "cable ordered"),
    mark("assigned", 3, "pat"),
    mark("comment", 4, "swapped"),
  ];
  expect(comments(marks).map((one) => one.reason)).toEqual(["swapped", "cable ordered"]);
  expect(assigned(marks)?.reason).toBe("pat");
  expect(assigned([...marks, mark("assigned", 5, "")])).toBeUndefined();
  const others = marks.map((one) => ({ ...one, incident: "other" }));
  const theirs = assignees([...marks, ...others, { ...mark("assigned", 5, ""), incident: "other" }]);
  expect([...theirs.values()]).toEqual(["pat", ""]);
  expect(newestMarks(marks, "", "").map((one) => one.mark)).toEqual(["dismissed"]);
});

const told = (at: number, more: object = {}) => ({
  tenant: "t",
  cluster: "c",
  job: "b",
  entity: "job:b",
  symptom: "slow",
  severity: "warning",
  state: "over",
  suppressed: null,
  lost_gpu_seconds: 2,
  start_ns: T + at * S,
  causes: [{ entity: "port:h3/eth0", rule: "link-down" }],
  ...more,
});

test("repeats are one line with the newest of them; what lasts is never hidden behind what is over", () => {
  const found = repeats([
    told(9, { state: "open" }),
    told(1),
    told(5),
    told(3, { causes: [{ entity: "port:h4/eth0", rule: "link-down" }] }),
    told(7, { causes: [] }),
  ]);
  expect(found.map((each) => [(each.one.start_ns - T) / S, each.all.length, each.lost])).toEqual([
    [9, 1, 2],
    [5, 2, 4],
    [3, 1, 2],
    [7, 1, 2],
  ]);
});

test("counts over time leave out what began before or after", () => {
  const ends = { fromNs: T, toNs: T + 40 * S };
  const some = [told(-1), told(0), told(19), told(20, { severity: "critical" }), told(40)];
  expect(bars(some, ends, 2).map((each) => [each.warning, each.critical])).toEqual([
    [2, 0],
    [0, 1],
  ]);
});
