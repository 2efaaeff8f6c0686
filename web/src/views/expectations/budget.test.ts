import { describe, expect, it } from "vitest";
import { barOf, budget, burns, goodShare } from "./budget";

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
  it("burn at rates of three windows", () => {
    expect(burns({ "5m": 5451.5, "1h": 14.42, "24h": 0.4 })).toBe("5,452×  14×  0.4×");
    expect(burns({ "5m": null })).toBe("-  -  -");
  });
});
