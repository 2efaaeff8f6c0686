import { expect, test } from "vitest";
import { byPlace } from "../fleet/fleet";
import {
  type Board,
  classesOf,
  described,
  figuresOf,
  flowWords,
  hostsOf,
  machineOf,
  matching,
  only,
  type SlowFlow,
  thresholdOf,
  wayWords,
} from "./board";

const BOARD: Board = {
  schema: 1,
  at_ns: 20e9,
  from_ns: 10e9,
  measure: "queue_p50",
  unit: "ns",
  traffic_class: 0,
  classes: [{ value: 0, pairs: 6 }],
  hosts: ["h1", "h2", "h3", "h4", "h5"],
  states: ["probed", "dark", "unprobed"],
  state: [0, 0, 0, 1, 2],
  words: ["", "", "", "no probe from or to it arrives", ""],
  inbound: [1800, 2600, 8000, null, null],
  outbound: [1800, 1800, 3200, null, null],
  inbound_bound_ns: [200, null, 200, null, null],
  outbound_bound_ns: [200, 200, 200, null, null],
  inbound_peers: [3, 3, 1, 3, 0],
  outbound_peers: [3, 3, 1, 3, 0],
  inbound_silent: [1, 1, 0, 3, 0],
  outbound_silent: [1, 1, 0, 3, 0],
  heard_ns: [20e9, 20e9, 20e9, null, null],
  tags: [
    { name: "pod", values: ["p1", "p2"], of: [0, 0, 1, 1, -1] },
    { name: "rack", values: ["r1", "r2"], of: [0, 0, 1, 1, -1] },
  ],
  jobs: [
    { job: "bert-1", tenant: "t", hosts: 2, ranks: 2, running: true },
    { job: "old-1", tenant: "t", hosts: 1, ranks: 1, running: false },
  ],
  jobs_of: [[0, 1], [], [0], [], []],
  nics_total: [2, 2, 2, 2, 2],
  nics_healthy: [2, 2, 1, 2, 0],
  nics_unknown: [0, 0, 0, 0, 2],
  machines: [{ hosts: [0, 1], probability: 0.97 }],
  machines_unknown: [{ hosts: [2], why: "its lines are too short" }],
  at_address: null,
  why: "",
};

test("a host is good, watched from half of the threshold, bad from it or if dark, unknown if not probed", () => {
  expect([...classesOf(BOARD, "inbound", 5000)]).toEqual([0, 3, 4, 4, 2]);
  expect([...classesOf(BOARD, "outbound", 5000)]).toEqual([0, 0, 3, 4, 2]);
  expect(thresholdOf("ns", 0)).toBe(5000);
  expect(thresholdOf("ns", 800)).toBe(800);
  expect(thresholdOf("ratio", NaN)).toBe(0.01);
});

test("healthy are those heard and not slow, of those that are probed", () => {
  expect(figuresOf(BOARD, "inbound", 5000, undefined)).toEqual({
    healthy: 2,
    probed: 4,
    dark: 1,
    slow: 1,
    hosts: 5,
    slowest: 2,
    nics: { healthy: 7, known: 8, total: 10 },
  });
  const one = figuresOf(BOARD, "outbound", 5000, hostsOf(BOARD, "bert-1"));
  expect([one.hosts, one.healthy, one.slowest]).toEqual([2, 2, 2]);
});

test("one workload shows its hosts only, in their places", () => {
  expect(hostsOf(BOARD, "")).toBeUndefined();
  const groups = only(byPlace(BOARD), hostsOf(BOARD, "bert-1"));
  expect(groups.map((group) => [group.name, ...group.inner.map((one) => one.hosts)])).toEqual([
    ["p1", [0]],
    ["p2", [2]],
  ]);
  expect(only(byPlace(BOARD), hostsOf(BOARD, "gone"))).toEqual([]);
});

test("hosts are found by name, tag, job, state and address", () => {
  expect(matching(BOARD, " ")).toBeUndefined();
  const found = (text: string, of = BOARD): number[] => [...(matching(of, text) ?? [])];
  expect(found("h3")).toEqual([0, 0, 1, 0, 0]);
  expect(found("R1")).toEqual([1, 1, 0, 0, 0]);
  expect(found("bert r2")).toEqual([0, 0, 1, 0, 0]);
  expect(found("dark")).toEqual([0, 0, 0, 1, 0]);
  expect(found("old-1")).toEqual([0, 0, 0, 0, 0]);
  expect(found("10.0.0", { ...BOARD, at_address: [4] })).toEqual([0, 0, 0, 0, 1]);
});

test("no delay is told without how well it is known, and over how many peers", () => {
  expect(wayWords(BOARD, 0, "inbound")).toBe("inbound: 1.8 µs ± 200 ns, 3 peers, nothing with 1");
  expect(wayWords(BOARD, 1, "inbound")).toContain("bound unknown");
  expect(wayWords(BOARD, 4, "outbound")).toBe("outbound: not probed");
  expect(machineOf(BOARD, 0)).toBe("on one machine with h2 (p 0.97)");
  expect(machineOf(BOARD, 3)).toBe("");
  expect(machineOf(BOARD, 2)).toBe("whether it shares a machine is unknown: its lines are too short");
  expect(described(BOARD, 3)[2]).toBe("dark: no probe from or to it arrives");
  expect(described(BOARD, 0).at(-1)).toBe("2 of 2 NICs healthy · pod p1 · rack r1");
});

test("a queue pair or socket is named as far as it is known", () => {
  const flow: SlowFlow = {
    job: "bert-1",
    tenant: "t",
    src_rank: 0,
    dst_rank: 1,
    src_host: "h1",
    dst_host: "h3",
    end_ns: 1,
    messages: 90,
    delay_p50_ns: 40_000,
    delay_p99_ns: 90_000,
    bound_ns: 300,
    flow: "a1b2c3d4e5",
    flows: 1,
    protocol: 17,
    src_ip: "10.0.0.1",
    dst_ip: "10.0.0.3",
    src_port: 49_152,
    dst_port: 4791,
    dst_qp: 17,
  };
  expect(flowWords(flow)).toBe("10.0.0.1:49152 to 10.0.0.3 queue pair 17");
  expect(flowWords({ ...flow, dst_qp: null, protocol: 6 })).toBe("tcp 10.0.0.1:49152 to 10.0.0.3:4791");
  const unknown = { ...flow, src_ip: null, dst_ip: null };
  expect(flowWords(unknown)).toBe("flow a1b2c3d4");
  expect(flowWords({ ...unknown, flow: null, flows: 2 })).toBe("one of 2 flows");
  expect(flowWords({ ...unknown, flow: null, flows: 0 })).toBe("not known");
});
