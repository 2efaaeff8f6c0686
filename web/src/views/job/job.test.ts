import { describe, expect, it } from "vitest";
import type { Communicator, Edge, Job, Mark } from "./job";
import {
  arcs,
  bands,
  lostColour,
  goodputLine,
  holds,
  onCircle,
  overlays,
  ownerId,
  ownerName,
  rankNames,
  slower,
  spanOfJob,
  stateOfJob,
  stateOfMark,
  takerName,
  widthOf,
  worstChannel,
  restWords,
} from "./job";

const S = 1e9;
const job = (more: Partial<Job>): Job => ({
  tenant: "acme",
  cluster: "c",
  job: "bert-1",
  ranks: 8,
  hosts: 8,
  gpus: 8,
  since_ns: 100 * S,
  until_ns: 200 * S,
  running: false,
  state: "silent",
  ended_ns: null,
  step: 60,
  step_s: 2,
  baseline_s: 1.6,
  goodput: 0.8,
  goodput_max: 0.8,
  lost_gpu_seconds: 1,
  held_gpu_seconds: 5,
  spent: [],
  estimated_gpu_seconds: 0,
  incidents_explained: 0,
  why: "",
  incidents: 0,
  incidents_open: 0,
  incidents_known: 0,
  suppressed: 0,
  user: "",
  project: "",
  about: [],
  line: { t_ns: [], step_s: [] },
  ...more,
});

describe("a job", () => {
  it("is bad where the cause is known, watched where it is not, unknown without a ledger", () => {
    expect(stateOfJob(job({ incidents_open: 2, incidents_known: 1 }))).toBe("bad");
    expect(stateOfJob(job({ incidents_open: 1 }))).toBe("watch");
    expect(stateOfJob(job({ incidents_open: 1, suppressed: 1 }))).toBe("suppressed");
    expect(stateOfJob(job({ goodput: null }))).toBe("unknown");
    expect(stateOfJob(job({}))).toBe("good");
  });
  it("is held against its usual step", () => {
    expect(slower(job({}))).toBe(1.25);
    expect(slower(job({ baseline_s: null }))).toBeNull();
  });
  it("fills the picture where it was there for less than the span", () => {
    const over = spanOfJob(job({}), { fromNs: 0, toNs: 1000 * S });
    expect(over).toEqual({ fromNs: 90 * S, toNs: 210 * S });
    expect(spanOfJob(job({ running: true }), { fromNs: 150 * S, toNs: 250 * S })).toEqual({
      fromNs: 150 * S,
      toNs: 250 * S,
    });
  });
});

describe("who took which second", () => {
  const timeline = [
    {
      from_ns: 0,
      to_ns: 10 * S,
      seconds: { compute: 4, communication: 4, straggler: 2 },
      lost: { communication: 1, straggler: 2 },
      missing: 0,
    },
    { from_ns: 10 * S, to_ns: 20 * S, seconds: { unknown: 5 }, lost: {}, missing: 5 },
  ];
  const takers = [{ category: "straggler", owner: "rank:bert-1/13", lost_seconds: [2, 0] }];

  it("stacks to all of the wall time, with what is lost by its owner and what nobody knows hatched", () => {
    const { timeNs, lines } = bands({ timeline, takers });
    expect(timeNs).toHaveLength(4);
    const values = Object.fromEntries(lines.map((line) => [line.label, line.values]));
    expect(values.compute).toEqual([0.4, 0.4, 0, 0]);
    expect(values.communication?.[0]).toBeCloseTo(0.3);
    expect(values["straggler: rank 13"]).toEqual([0.2, 0.2, 0, 0]);
    expect(values["lost to others"]?.[0]).toBeCloseTo(0.1);
    expect(values["straggler"]).toBeUndefined();
    expect(lines.find((one) => one.label === "compute")?.whole).toBe(0.2); // of both bins
    expect(lines.filter((line) => line.hatched).map((line) => line.label)).toEqual([
      "unknown",
      "not analysed",
    ]);
    const sums = [0, 2].map((at) => lines.reduce((sum, line) => sum + (line.values[at] ?? 0), 0));
    expect(sums[0]).toBeCloseTo(1);
    expect(sums[1]).toBeCloseTo(1);
  });
  it("has a goodput where something is known", () => {
    expect(goodputLine(timeline)).toEqual({ timeNs: [5 * S, 15 * S], values: [0.7, null] });
  });
  it("names owners shortly", () => {
    expect(ownerName("rank:bert-1/3>rank:bert-1/4")).toBe("edge 3 > 4");
    expect(takerName("communication", "port:h3/eth0")).toBe("comm: port h3/eth0");
    expect(ownerName("clocks without a fit")).toBe("clocks without a fit");
    expect(ownerName(null)).toBe("no single owner");
    expect(ownerId("rank:bert-1/3>rank:bert-1/4")).toBe("rank:bert-1/3");
    expect(ownerId("start-up")).toBe("");
  });
});

it("draws what happened with its state, and an incident leads to its card", () => {
  const mark: Mark = {
    t_ns: 1,
    end_ns: 2,
    kind: "incident",
    entity: "job:b",
    entities: 1,
    severity: "error",
    text: "slow",
    count: 1,
    incident: "b-slow",
  };
  expect(overlays([mark, { ...mark, severity: "info", incident: null }])).toEqual([
    { timeNs: 1, endNs: 2, text: "slow", state: "bad", href: "/incidents/b-slow" },
    { timeNs: 1, endNs: 2, text: "slow" },
  ]);
});

it("keeps what is over quiet", () => {
  const mark = (severity: string, end_ns: number | null) => stateOfMark({ severity, end_ns } as Mark);
  expect([mark("error", null), mark("warning", null), mark("error", 5), mark("info", null)]).toEqual([
    "bad",
    "watch",
    "good",
    "suppressed",
  ]);
});

it("names ranks with their hosts", () => {
  expect(rankNames(["5", "8-15"], [{ rank: 5, host: "h6" }])).toEqual(["5 h6", "8-15"]);
});

describe("the ring", () => {
  const edge = (from: number, to: number): Edge => ({ src_rank: from, dst_rank: to }) as Edge;
  const one = {
    channels: [
      { channel: 0, shape: "ring", order: [0, 1, 2], edges: 3 },
      { channel: 1, shape: "chain", order: [2, 0], edges: 1 },
      { channel: 2, shape: "other", order: [], edges: 4 },
    ],
    edges: [edge(0, 1), { ...edge(2, 0), share: 0.4 }],
  } as unknown as Communicator;

  it("goes round, a chain does not close, another shape has no order", () => {
    expect(arcs(one, 0).map((arc) => [arc.from, arc.to, !!arc.edge])).toEqual([
      [0, 1, true],
      [1, 2, false],
      [2, 0, true],
    ]);
    expect(arcs(one, 1).map((arc) => [arc.from, arc.to])).toEqual([[2, 0]]);
    expect(arcs(one, 2)).toEqual([]);
    expect(worstChannel(one)).toBe(0);
  });
  it("begins at the top and is as wide as its bytes", () => {
    expect(onCircle(0, 4, 10).y).toBeCloseTo(-10);
    expect(onCircle(1, 4, 10).x).toBeCloseTo(10);
    expect(widthOf(100, 100)).toBe(10);
    expect(widthOf(0, 100)).toBe(1);
  });
  it("marks edges that hold more than their part", () => {
    expect([holds(0.125, 8), holds(0.3, 8), holds(0.6, 8), holds(null, 8)]).toEqual([
      "good",
      "watch",
      "bad",
      "unknown",
    ]);
  });
});

it("says where time went that was neither productive nor lost", () => {
  const spent = [
    { category: "restart", share: 0.1 },
    { category: "checkpoint", share: 0.01 },
  ];
  expect(restWords({ spent })).toBe("10 % starting");
  expect(restWords({ spent: [] })).toBe("");
});

it("a colour means one category and one owner, whatever else is shown", () => {
  const alone = lostColour("communication", "port:h3/eth0");
  expect(alone).toMatch(/^lost-communication-[1-4]$/);
  expect(lostColour("communication", "port:h3/eth0")).toBe(alone);
  expect(lostColour("straggler", "port:h3/eth0")).toBe(alone.replace("communication", "straggler"));
  const shades = new Set(["a", "b", "c", "d", "e", "f"].map((owner) => lostColour("input", owner)));
  expect(shades.size).toBe(4);
  expect(lostColour("of-tomorrow", null)).toBe("lost-others");
});
