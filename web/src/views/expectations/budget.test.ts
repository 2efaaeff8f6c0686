import { describe, expect, it } from "vitest";
import { barOf, budget, burnRate, goodShare, parted } from "./budget";

describe("shares", () => {
  it.each([
    [1, "100 %"],
    [0.26244, "26.2 %"],
    [0.98, "98.0 %"],
    [0.9983, "99.83 %"],
    [0.99999, "99.9990 %"],
    [0.999999999, "99.999999 %"],
    [0, "0.0 %"],
  ])("%f is %s", (sle, text) => expect(goodShare(sle)).toBe(text));

  it("are unknown where all is missing, and never rounded up to all", () => {
    expect(goodShare(null)).toBe("unknown");
    for (let size = 1; size < 12; size += 1) expect(goodShare(1 - 10 ** -size)).not.toMatch(/^100 /);
  });
});

describe("budgets", () => {
  it("say what is left, or how often they were spent", () => {
    expect(budget(0.62, 36)).toBe("62 % of 36 s left");
    expect(budget(-2.1, 36)).toBe("spent 3.1 times");
    expect(budget(null, 0)).toBe("none: all is promised");
  });
  it("are bars within their frame", () => {
    expect([barOf(-451), barOf(0.3), barOf(null), barOf(1)]).toEqual([0, 0.3, 0, 1]);
  });
  it("burn at a rate", () => {
    expect([5451.5, 14.42, 0.4, null].map(burnRate)).toEqual(["5,452×", "14×", "0.4×", "-"]);
  });
});

it("what is broken is apart from what is strained, unknown or kept", () => {
  const held = [
    { state: "critical", sle: 0.3, missing_s: 0 },
    { state: "ok", sle: 1, missing_s: 0 },
    { state: "warning", sle: 0.99, missing_s: 5 },
    { state: "unknown", sle: null, missing_s: 60 },
    { state: "ok", sle: 1, missing_s: 2 },
    { state: "ok", sle: 0.999, missing_s: 0 },
  ];
  const found = parted(held);
  const places = (some: typeof held) => some.map((one) => held.indexOf(one));
  expect(places(found.broken)).toEqual([0, 2]);
  expect(places(found.strained)).toEqual([4, 5]);
  expect(places(found.unknown)).toEqual([3]);
  expect(places(found.kept)).toEqual([1]);
});
