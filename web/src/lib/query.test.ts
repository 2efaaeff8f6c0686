import { describe, expect, it } from "vitest";
import { completions, read, written } from "./query";

const NOW = Date.UTC(2026, 10, 20, 15) * 1e6;

describe("a query", () => {
  it.each([
    ["job:bert-7", "/jobs/bert-7", {}],
    ["job:bert-7 rank:13", "/jobs/bert-7", { rank: "13" }],
    ["rank:bert-7/13", "/jobs/bert-7", { rank: "13" }],
    ["host:n12", "/entity", { of: "host:n12" }],
    ["switch:leaf1", "/entity", { of: "switch:leaf1" }],
    ["10.0.0.3", "/fleet", { find: "10.0.0.3" }],
    ["rack r4", "/fleet", { find: "rack r4" }],
    ["job:b last:15m", "/jobs/b", { last: "15m" }],
    ["", "/fleet", {}],
  ])("'%s' leads to %s", (text, path, params) => expect(read(text, NOW)).toEqual({ path, params }));

  it("reads a moment as the five minutes around it", () => {
    expect(read("job:bert-7 at:14:02", NOW)).toEqual({
      path: "/jobs/bert-7",
      params: { from: "2026-11-20T13:59:30.000Z", to: "2026-11-20T14:04:30.000Z" },
    });
  });

  it.each([
    ["at:noon", "14:02"],
    ["last:soon", "15m"],
    ["job:", "a name"],
  ])("'%s' is told what was expected", (text, expected) => {
    const answer = read(text, NOW);
    expect("problem" in answer && answer.problem).toContain(expected);
  });

  it("is written from a place as it would be typed", () => {
    expect(written("/jobs/bert-7", new URLSearchParams("rank=13"))).toBe("job:bert-7 rank:13");
    expect(written("/fleet", new URLSearchParams("at=host:n12"))).toBe("host:n12");
    expect(written("/entity", new URLSearchParams("of=gpu:GPU-5c1e"))).toBe("gpu:GPU-5c1e");
    expect(written("/", new URLSearchParams())).toBe("");
  });
});

describe("completions", () => {
  const known = ["job:bert-7", "job:bert-12", "host:n12", "host:n2", "switch:leaf1"];
  it("take the last word, numbers in their order", () => {
    expect(completions("job:x ber", known)).toEqual(["job:bert-7", "job:bert-12"]);
    expect(completions("host:n", known)).toEqual(["host:n2", "host:n12"]);
    expect(completions("12", known)).toEqual(["host:n12", "job:bert-12"]);
  });
  it("are none of nothing, and of what is not there", () => {
    expect(completions("job:bert-7 ", known)).toEqual([]);
    expect(completions("zz", known)).toEqual([]);
  });
});
