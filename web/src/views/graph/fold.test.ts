import { describe, expect, it } from "vitest";
import {
  carried,
  type Edge,
  type Graph,
  groupName,
  labelOf,
  type Node,
  pictured,
  rowTitle,
  standsOn,
} from "./fold";

const QUIET = { state: "good", why: "", since_ns: null, incident: null };
const LAYER: Record<string, number> = { job: 0, rank: 1, gpu: 2, host: 3, port: 4, swport: 5, switch: 5 };

function node(entity: string, more: Partial<Node> = {}): Node {
  const kind = entity.split(":")[0] ?? "";
  return { entity, kind, layer: LAYER[kind] ?? 9, jobs: ["job:a"], conflict: false, ...QUIET, ...more };
}
function edge(child: string, parent: string, more: Partial<Edge> = {}): Edge {
  return {
    child,
    parent,
    kind: "in",
    from_ns: 0,
    to_ns: null,
    sources: ["agent"],
    confidence: 1,
    link: null,
    child_port: null,
    parent_port: null,
    used: true,
    bytes: null,
    ...QUIET,
    ...more,
  };
}

/** `hosts` hosts with a rank, a GPU and two NIC ports each, on two leaves. */
function fleet(hosts: number, broken: readonly string[] = []): Graph {
  const nodes = [node("job:a"), node("switch:leaf1"), node("switch:leaf2")];
  const edges: Edge[] = [];
  for (let h = 0; h < hosts; h += 1) {
    const [rank, gpu, host] = [`rank:a/${h}`, `gpu:GPU-${h}-x`, `host:h${h}`];
    nodes.push(node(rank), node(gpu), node(host));
    edges.push(edge("job:a", rank), edge(rank, gpu), edge(rank, host), edge(gpu, host));
    for (const rail of [1, 2]) {
      const port = `port:h${h}/eth${rail}`;
      nodes.push(node(port));
      const link = `link:h${h}/eth${rail}~leaf${rail}/e${h}`;
      edges.push(edge(host, port), edge(port, `switch:leaf${rail}`, { link, kind: "linked", bytes: 10 }));
    }
  }
  return {
    schema: 1,
    job: "job:a",
    of: null,
    at_ns: 1,
    as_of_ns: 1,
    carried_ns: 10,
    nodes: nodes.map((one) =>
      broken.includes(one.entity) ? { ...one, state: "bad", why: "it broke" } : one,
    ),
    edges,
    shared: [{ entity: "switch:leaf1", kind: "switch", jobs: ["job:a", "job:b"], others: 0 }],
    conflicts: [],
    missing: [],
    span: null,
    moments: [],
    note: "",
  };
}
const NONE: ReadonlySet<string> = new Set();

describe("the picture of a graph", () => {
  it("shows each part by itself while rows are short", () => {
    const found = pictured(fleet(4), NONE);
    expect(found.boxes.filter((box) => box.group)).toEqual([]);
    expect(found.boxes.filter((box) => box.kind === "host").map((box) => box.label)).toEqual([
      "h0",
      "h1",
      "h2",
      "h3",
    ]);
    expect(found.boxes.find((box) => box.id === "switch:leaf1")?.shared).toBe(true);
  });

  it("leaves out a line that a longer way says", () => {
    const lines = pictured(fleet(2), NONE).lines.map((line) => `${line.child} ${line.parent}`);
    expect(lines).toContain("rank:a/0 gpu:GPU-0-x");
    expect(lines).not.toContain("rank:a/0 host:h0");
  });

  it("folds parts by host, and opens a group by its members", () => {
    const found = pictured(fleet(12), NONE);
    const ports = found.boxes.filter((box) => box.kind === "port");
    expect(ports.map((box) => box.label)[2]).toBe("2 NIC ports of h2");
    expect(ports).toHaveLength(12);
    const line = found.lines.find((one) => one.child === ports[0]?.id && one.parent === "switch:leaf1");
    expect(line?.bytes).toBe(10);
    const opened = pictured(fleet(12), new Set(["4/port@host:h2"]));
    expect(opened.boxes.filter((box) => box.kind === "port" && !box.group).map((box) => box.label)).toEqual([
      "h2/eth1",
      "h2/eth2",
    ]);
  });

  it("folds what does not fit by host by the leaves of its hosts", () => {
    const found = pictured(fleet(40), NONE);
    expect(found.boxes.map((box) => box.label)).toEqual([
      "a",
      "40 ranks at leaf1+leaf2",
      "40 GPUs at leaf1+leaf2",
      "40 hosts at leaf1+leaf2",
      "80 NIC ports at leaf1+leaf2",
      "leaf1",
      "leaf2",
    ]);
    const opened = pictured(fleet(40), new Set(["4/port@leaf1+leaf2"]));
    expect(opened.boxes.filter((box) => box.kind === "port")).toHaveLength(40);
  });

  it("keeps the tiers of switches apart", () => {
    const tiers = [5, 6].flatMap((layer) =>
      Array.from({ length: 20 }, (_, at) => node(`switch:s${layer}-${at}`, { layer })),
    );
    const found = pictured({ ...fleet(1), nodes: tiers, edges: [] }, NONE);
    expect(found.boxes.map((box) => box.id)).toEqual(["5/switch@", "6/switch@"]);
  });

  it("never hides what is bad or chosen in a group", () => {
    const found = pictured(fleet(40, ["host:h7"]), NONE, "gpu:GPU-3-x");
    expect(found.boxes.find((box) => box.id === "host:h7")?.state).toBe("bad");
    expect(found.boxes.find((box) => box.id === "gpu:GPU-3-x")?.group).toBe(false);
    expect(found.boxOf.get("host:h8")).toBe("3/host@leaf1+leaf2");
  });

  it("tells the worst state of a group, and of how many", () => {
    const broken = Array.from({ length: 6 }, (_, h) => `host:h${h}`);
    const group = pictured(fleet(40, broken), NONE).boxes.find((box) => box.id === "3/host@leaf1+leaf2");
    expect([group?.state, group?.why]).toEqual(["bad", "6 of 40 bad: it broke"]);
  });

  it("follows down and up", () => {
    const found = pictured(fleet(2), NONE);
    expect([...standsOn(found, "host:h0")].sort()).toEqual([
      "host:h0",
      "port:h0/eth1",
      "port:h0/eth2",
      "switch:leaf1",
      "switch:leaf2",
    ]);
    expect([...carried(found, "host:h0")].sort()).toEqual(["gpu:GPU-0-x", "host:h0", "job:a", "rank:a/0"]);
  });

  it("takes a state that nobody told for unknown, never for good", () => {
    const graph = fleet(1);
    const found = pictured({ ...graph, nodes: graph.nodes.map((one) => ({ ...one, state: null })) }, NONE);
    expect(new Set(found.boxes.map((box) => box.state))).toEqual(new Set(["unknown"]));
  });
});

describe("names", () => {
  it("are short in boxes and counted in rows", () => {
    expect(labelOf("rank:bert/large-7/13")).toBe("rank 13");
    expect(labelOf("gpu:GPU-61eb79e9-3f1b-58c1-8e09-2d744af3a8f1")).toBe("GPU-61eb79e9");
    expect([groupName("4/port@host:h2"), groupName("3/host@leaf1+leaf2"), groupName("5/switch@")]).toEqual([
      "NIC ports of h2",
      "hosts of leaf1+leaf2",
      "switches",
    ]);
    expect(rowTitle(["gpu"], 1)).toBe("1 GPU");
    expect(rowTitle(["port", "storage", "port"], 9)).toBe("9 NIC ports, storage");
  });
});
