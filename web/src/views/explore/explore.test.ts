import { describe, expect, it } from "vitest";
import { asBand, askedOf, drawnLines, type Found, withMatcher } from "./explore";

const line = (label: string, mean: number[]) => ({
  label,
  entity: "",
  streams: 1,
  mean,
  low: null,
  high: null,
  last: null,
  least: null,
  most: null,
  last_words: "",
});
const found = {
  lines: [line("h1", [1]), line("h2", [2])],
  lines_total: 2,
  band: { count: 2, median: [1], low: [1], high: [2] },
} as unknown as Found;

describe("the explorer", () => {
  it("reads what is asked from the URL, and no nonsense", () => {
    const asked = askedOf(new URLSearchParams("name=up&rate=sometimes&show=band"));
    expect([asked.name, asked.rate, asked.show, asked.combine]).toEqual(["up", "auto", "band", "auto"]);
  });

  it("draws many lines as a band, few one by one, and what was asked for", () => {
    expect(asBand({ show: "auto" }, found)).toBe(false);
    expect(asBand({ show: "auto" }, { ...found, lines_total: 9 })).toBe(true);
    expect(asBand({ show: "band" }, found)).toBe(true);
    expect(asBand({ show: "band" }, { ...found, band: null })).toBe(false);
  });

  it("draws what was chosen from the table over the band", () => {
    expect(drawnLines(found, false, new Set()).map((one) => one.label)).toEqual(["h1", "h2"]);
    expect(drawnLines(found, true, new Set()).map((one) => one.label)).toEqual(["median of 2"]);
    expect(drawnLines(found, true, new Set(["h2"])).map((one) => one.label)).toEqual(["h2", "median of 2"]);
  });

  it.each([
    ["", "host", "h3", "host=h3"],
    ["a=b", "device", "a b", 'a=b device="a b"'],
  ])("'%s' with %s=%s becomes %s", (where, label, value, told) =>
    expect(withMatcher(where, label, value)).toBe(told),
  );
});
