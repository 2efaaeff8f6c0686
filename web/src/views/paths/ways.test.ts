import { expect, it } from "vitest";
import {
  barsOf,
  busiestPair,
  collidingOf,
  type Flow,
  type Group,
  numberOf,
  othersOn,
  rankOf,
  ranksOf,
  rate,
  stopsOf,
  transport,
} from "./ways";

const FLOW: Flow = {
  flow: "a1",
  end_ns: 10,
  window_ns: 10,
  job: "a",
  src_rank: "rank:a/0",
  dst_rank: "rank:a/1",
  src: "port:h1/eth0",
  dst: "port:h3/eth0",
  src_ip: "10.0.0.1",
  dst_ip: "10.0.0.3",
  protocol: 17,
  src_port: 4000,
  dst_port: 4791,
  dst_qp: 17,
  state: "known",
  probability: 0.99,
  alternatives: 1,
  samples: 10,
  contradicting: 0,
  bytes: 5,
  low: 4,
  high: 6,
  why: "",
  busiest: null,
  busiest_bytes: null,
};
const WAY = [
  "link:h1/eth0~leaf1/e1",
  "link:leaf1/e9~spine1/e1",
  "link:leaf2/e9~spine1/e2",
  "link:h3/eth0~leaf2/e1",
];

it("names both ends of each link in the direction of the flow", () => {
  const hops = WAY.map((link) => ({ link }));
  const there = stopsOf(hops, "port:h1/eth0").map((stop) => `${stop.from}>${stop.to}`);
  expect(there).toEqual(["h1/eth0>leaf1/e1", "leaf1/e9>spine1/e1", "spine1/e2>leaf2/e9", "leaf2/e1>h3/eth0"]);
  expect(stopsOf(hops, null).map((stop) => `${stop.from}>${stop.to}`)).toEqual(there);
  const back = stopsOf([...hops].reverse(), "port:h3/eth0");
  expect([back[0]?.from, back[3]?.to]).toEqual(["h3/eth0", "h1/eth0"]);
  expect(stopsOf([], null)).toEqual([]);
});

it("tells a queue pair from a connection", () => {
  expect(transport(FLOW)).toBe("RoCEv2 10.0.0.1:4000 > 10.0.0.3 queue pair 17");
  expect(transport({ ...FLOW, dst_qp: null, protocol: 6, dst_ip: "fd00::3" })).toBe(
    "tcp 10.0.0.1:4000 > [fd00::3]:4791",
  );
});

it("tells a rate with its interval in one unit", () => {
  expect(rate({ bytes: 8.6e6, low: 7.9e6, high: 9.3e6 }, 10)).toBe("6.88 Mbit/s (6.32 to 7.44)");
  expect(rate({ bytes: 1.25e6, low: 1e5, high: 2e6 }, 10)).toBe("1 Mbit/s (80 kbit/s to 1.6)");
  expect(rate({ bytes: null, low: null, high: null }, 10)).toBe("unknown");
  expect(rate({ bytes: 1, low: null, high: null }, 0)).toBe("unknown");
});

it("picks the two ranks that say most, both ways together", () => {
  const flows = [
    FLOW,
    { ...FLOW, src_rank: "rank:a/1", dst_rank: "rank:a/0", bytes: 4 },
    { ...FLOW, dst_rank: "rank:a/2", bytes: 8 },
    { ...FLOW, dst_rank: null, bytes: 99 },
  ];
  expect(busiestPair(flows)).toEqual(["a/0", "a/1"]);
  expect(busiestPair([])).toBeNull();
});

it("reads ranks of the URL and names what they run on", () => {
  expect([
    rankOf("a", "3"),
    rankOf("a", "b/4"),
    rankOf("a", "rank:a/5"),
    rankOf("a", "x"),
    rankOf("", "3"),
  ]).toEqual(["a/3", "b/4", "a/5", "", ""]);
  expect(numberOf("rank:team/a/12")).toBe("12");
  const edge = {
    kind: "in",
    from_ns: 0,
    to_ns: null,
    sources: [],
    confidence: 1,
    link: null,
    child_port: null,
  };
  const rest = { parent_port: null, bytes: null, state: null, why: "", since_ns: null, incident: null };
  const node = { kind: "rank", layer: 1, jobs: [], conflict: false, state: null, why: "", since_ns: null };
  const found = ranksOf({
    nodes: ["rank:a/10", "rank:a/2"].map((entity) => ({ ...node, entity, incident: null })),
    edges: [
      { ...edge, ...rest, child: "rank:a/2", parent: "gpu:GPU-1-x", used: true },
      { ...edge, ...rest, child: "gpu:GPU-1-x", parent: "host:h1", used: true },
      { ...edge, ...rest, child: "rank:a/10", parent: "host:h9", used: false },
    ],
  });
  expect(found).toEqual([
    { name: "a/2", number: 2, gpu: "GPU-1-x", host: "h1" },
    { name: "a/10", number: 10, gpu: "", host: "" },
  ]);
});

it("names jobs that it may and counts the others", () => {
  const load = {
    link: "l",
    bytes: 30,
    low: 20,
    high: 40,
    flows: 3,
    jobs: { a: 10, b: 10, "(nobody)": 10 },
    others: 2,
  };
  expect(othersOn(load, "a", 10)).toBe("b 8 bit/s, nobody's 8 bit/s, 2 jobs of other tenants");
  expect(othersOn({ ...load, jobs: { a: 10 }, others: 0 }, "a", 10)).toBe("");
  expect(othersOn(undefined, "a", 10)).toBe("");
});

const GROUP: Group = {
  switch: "leaf1",
  group: "e9,e10",
  end_ns: 10,
  window_ns: 10,
  links: [WAY[1] ?? "", "link:leaf1/e10~spine2/e1"],
  flows: 2,
  bytes: 12,
  efficiency: 0.6,
  busiest: "link:leaf1/e10~spine2/e1",
  busiest_bytes: 10,
  colliding: ["flow:a1", "flow:0123456789abcdef"],
  jobs: ["a", "b"],
  sent: [
    { link: "link:leaf1/e10~spine2/e1", bytes: 10, jobs: { b: 6, a: 4 } },
    { link: WAY[1] ?? "", bytes: 2, jobs: { a: 2 } },
  ],
};

it("draws a group as bars by port, own and others'", () => {
  expect(
    barsOf(GROUP, "a").map(({ port, peer, own, rest, busiest }) => ({ port, peer, own, rest, busiest })),
  ).toEqual([
    { port: "e9", peer: "spine1", own: 0.2, rest: 0, busiest: false },
    { port: "e10", peer: "spine2", own: 0.4, rest: 0.6, busiest: true },
  ]);
  expect(barsOf({ ...GROUP, sent: [] }, "a")).toEqual([]);
});

it("names who collides: ranks of the job, other flows by id", () => {
  expect(collidingOf(GROUP, [FLOW])).toEqual([
    { flow: "flow:a1", text: "rank 0 > 1", pair: ["0", "1"] },
    { flow: "flow:0123456789abcdef", text: "flow 01234567", pair: null },
  ]);
});
