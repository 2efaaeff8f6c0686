import { describe, expect, it } from "vitest";
import {
  alike,
  comparable,
  type Difference,
  inUnitOf,
  needsOther,
  onScale,
  stateOfDifference,
  valueWords,
  verdictWords,
  whatWords,
  withInterval,
} from "./compare";

const side = (value: number | null, low: number | null = null, high: number | null = null) => ({
  value,
  low,
  high,
  count: 9,
});
const apart = (more: Partial<Difference>): Difference => ({
  a: side(2, 1.9, 2.1),
  b: side(3, 2.8, 3.2),
  ratio: 1.5,
  low: 1.33,
  high: 1.68,
  verdict: "more",
  why: "",
  ...more,
});

describe("sides", () => {
  it("are jobs, hosts and GPUs, like with like; a job needs another one", () => {
    expect(comparable(["job:bert-1", "host:h1", "rank:bert-1/0"])).toEqual(["bert-1", "host:h1"]);
    expect(alike(["bert-1", "host:h1", "gpu:G"], "host:h3@-2h")).toEqual(["host:h1"]);
    expect(alike(["bert-1", "host:h1"], "bert-2")).toEqual(["bert-1"]);
    expect([needsOther("bert-1@-2h"), needsOther("host:h3")]).toEqual([true, false]);
  });
});

describe("a difference", () => {
  it("is told with its interval", () => {
    expect(withInterval("s", side(2, 1.9, 2.1))).toBe("2 s (1.9 s to 2.1 s)");
    expect(withInterval("s", side(2))).toBe("2 s");
    expect(verdictWords(apart({}))).toBe("B 50 % more (33 to 68)");
    expect(verdictWords(apart({ ratio: 0.5, low: 0.4, high: 0.6, verdict: "less" }))).toBe(
      "B 50 % less (40 to 60)",
    );
    expect(verdictWords(apart({ ratio: 12, low: 8, high: 20 }))).toBe("B 12 times as much");
    expect(verdictWords(apart({ verdict: "same" }))).toBe("no difference beyond noise");
    expect(verdictWords(apart({ verdict: "unknown", why: "no values of B" }))).toBe(
      "unknown: no values of B",
    );
  });
  it("is to be watched where it costs", () => {
    expect(stateOfDifference(apart({}), "s")).toBe("watch");
    expect(stateOfDifference(apart({}), "tokens/s")).toBe("good");
    expect(stateOfDifference(apart({ verdict: "less" }), "GB/s")).toBe("watch");
    expect(stateOfDifference(apart({ verdict: "unknown" }), "s")).toBe("unknown");
  });
  it("is drawn on one scale", () => {
    const drawn = onScale(apart({ b: side(null) }));
    expect(drawn.b).toBeNull();
    expect(drawn.a).toEqual({ at: 2 / 2.1, low: 1.9 / 2.1, high: 1 });
  });
});

it("says units and settings", () => {
  expect(inUnitOf("GB/s", 1.25)).toBe("10 Gbit/s");
  expect(inUnitOf("tokens/s", 5230)).toBe("5,230 tokens/s");
  expect(inUnitOf("s", null)).toBe("unknown");
  expect(valueWords({ "12.1": 6, "12.4": 2 })).toBe("12.1 (6), 12.4 (2)");
  expect(valueWords({ "12.1": 6 })).toBe("12.1");
  expect(valueWords({})).toBe("no data");
  expect(whatWords("in all_reduce 2372352 B on 8")).toBe("in all_reduce 2.37 MB on 8");
  expect(whatWords("tokens")).toBe("tokens");
});
