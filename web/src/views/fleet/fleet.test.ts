import { describe, expect, it } from "vitest";
import { BAD, boundOf, byJob, byPlace, classesOf, counted, GOOD, isAddress, matching, meanOf, measureOf, UNKNOWN, valuesOf, WATCH, type Fleet, nicWords } from "./fleet"; // prettier-ignore

const ways = (inbound: (number | null)[]) => ({ inbound, outbound: inbound.map(() => 0) });
const FLEET: Fleet = {
  schema: 1,
  from_ns: 0,
  to_ns: 60e9,
  cluster: "default",
  hosts: ["h1", "h2", "h3", "h10"],
  gpus: [8, 8, 8, 8],
  states: ["good", "suppressed", "unknown", "watch", "bad"],
  state: [0, 4, 2, 0],
  jobs: [
    { job: "bert-1", tenant: "acme", hosts: 2, ranks: 16, running: true },
    { job: "moe", tenant: "acme", hosts: 1, ranks: 8, running: true },
  ],
  jobs_of: [[0], [0], [], [1]],
  tags: [
    { name: "ecmp", values: ["leaf1", "leaf2"], of: [0, 0, 1, 1] },
    { name: "rack", values: ["r1", "r2"], of: [0, 1, 1, -1] },
  ],
  loss: ways([0.0001, 0.02, null, 0.0007]),
  errors: ways([0, 0, null, 0]),
  load: ways([0.5, 0.95, null, 0.2]),
  delay_ns: ways([null, null, null, null]),
  bytes_per_s: ways([1e9, 3e9, null, 2e9]),
  nics_total: [2, 2, 2, 2],
  nics_healthy: [2, 1, 0, 2],
  nics_unknown: [0, 0, 0, 0],
  reasons: [
    {
      host: 1, state: "bad", text: "link-down: port:h2/eth0", entity: "port:h2/eth0", since_ns: 1, port: "h2/eth0",
      incident: "bert-1-slow",
    }, // prettier-ignore
  ],
  ports: [{ host: 1, name: "eth0", place: 0, state: "bad", text: "no carrier" }],
  nics: { total: 8, healthy: 5, unknown: 2 },
  at_address: null,
  why: "",
};

describe("fleet", () => {
  it("colours by the state that the API tells", () => {
    const classes = classesOf(FLEET, measureOf("state"), "inbound", 0);
    expect([...classes]).toEqual([GOOD, BAD, UNKNOWN, GOOD]);
    expect(counted(classes)).toEqual([2, 0, 1, 0, 1]);
  });
  it("colours by a value against its bound; what is not known is unknown, never good", () => {
    const loss = measureOf("loss");
    expect([...classesOf(FLEET, loss, "inbound", 0.001)]).toEqual([GOOD, BAD, UNKNOWN, WATCH]);
    expect([...classesOf(FLEET, measureOf("delay"), "inbound", 1)]).toEqual([2, 2, 2, 2]);
  });
  it("sets the bound by the fleet where all lose a little, and takes the reader's", () => {
    const loss = measureOf("loss");
    expect(boundOf(loss, [0.01, 0.011, 0.009], 0)).toBeCloseTo(0.03);
    expect(boundOf(loss, [0, 0, 0.5, null], 0)).toBe(0.001);
    expect(boundOf(loss, [0.01], 0.2)).toBe(0.2);
    expect(boundOf(measureOf("load"), [0.5], 0)).toBe(0.9);
  });
  it("groups by rack within ECMP group, and says where a place is not told", () => {
    expect(byPlace(FLEET)).toEqual([
      {
        name: "leaf1",
        inner: [
          { name: "r1", hosts: [0] },
          { name: "r2", hosts: [1] },
        ],
      },
      {
        name: "leaf2",
        inner: [
          { name: "r2", hosts: [2] },
          { name: "rack no data", hosts: [3] },
        ],
      },
    ]);
  });
  it("groups by ECMP group alone where no rack is told, and into one where nothing is", () => {
    const [ecmp] = FLEET.tags;
    const bare = { ...FLEET, tags: ecmp ? [ecmp] : [] };
    expect(byPlace(bare).map((one) => one.inner.map((each) => each.name))).toEqual([["leaf1", "leaf2"]]);
    expect(byPlace({ ...FLEET, tags: [] })).toEqual([
      { name: "", inner: [{ name: "", hosts: [0, 1, 2, 3] }] },
    ]);
  });
  it("groups by job, the largest first, hosts of none last", () => {
    expect(byJob(FLEET).map((one) => [one.name, one.inner[0]?.hosts])).toEqual([
      ["bert-1", [0, 1]],
      ["moe", [3]],
      ["no job", [2]],
    ]);
  });
  it("finds by name, tag, job, state, reason; all words must fit", () => {
    const found = (text: string) => [...(matching(FLEET, text, null) ?? [9])];
    expect(found("h1")).toEqual([1, 0, 0, 1]);
    expect(found("r2")).toEqual([0, 1, 1, 0]);
    expect(found("bert")).toEqual([1, 1, 0, 0]);
    expect(found("bad")).toEqual([0, 1, 0, 0]);
    expect(found("link-down h2")).toEqual([0, 1, 0, 0]);
    expect(found("bert r1")).toEqual([1, 0, 0, 0]);
    expect(found("  ")).toEqual([9]);
    expect([...(matching(FLEET, "10.0.3.", [2]) ?? [])]).toEqual([0, 0, 1, 0]);
  });
  it("knows an address when it sees one", () => {
    expect(["10.0.3.", "10.", "fe80::1", "h10", "r2", "1"].map(isAddress)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
  });
  it("words values of a host, unknown as such", () => {
    expect(valuesOf(FLEET, 2).find((one) => one.title === "load")?.inbound).toBe("unknown");
    expect(valuesOf(FLEET, 1).find((one) => one.title === "throughput")?.inbound).toBe("24 Gbit/s");
    expect(meanOf([1, null, 3])).toEqual({ mean: 2, known: 2 });
    expect(meanOf([null])).toEqual({ mean: null, known: 0 });
  });
  it("does not call a NIC sick of which nobody tells", () => {
    expect(nicWords(0, 8, 8)).toBe("carrier of 8 NICs not known");
    expect(nicWords(7, 8, 0)).toBe("7 of 8 NICs healthy");
    expect(nicWords(6, 8, 1)).toBe("6 of 7 NICs healthy, 1 unknown");
  });
});
