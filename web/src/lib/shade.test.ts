import { describe, expect, it } from "vitest";
import { between, heat, rgbOf, roundUp, shades } from "./shade";

const LIGHT = [rgbOf("#f3f3f0"), rgbOf("#b7791f"), rgbOf("#b83a4b")] as const;
const DARK = [rgbOf("#1d2126"), rgbOf("#b7791f"), rgbOf("#f0707f")] as const;

function lightness([r, g, b]: readonly [number, number, number]): number {
  const linear = [r, g, b].map((each) => (each / 255) ** 2.2) as [number, number, number];
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

describe("shade", () => {
  it("reads colours, and grey for what is none", () => {
    expect(rgbOf("#2f6fdb")).toEqual([47, 111, 219]);
    expect(rgbOf("no colour")).toEqual([128, 128, 128]);
    expect(between([0, 0, 0], [10, 20, 30], 0.5)).toEqual([5, 10, 15]);
  });
  it.each([
    ["light", LIGHT, -1],
    ["dark", DARK, 1],
  ] as const)("changes its lightness one way all along the scale, %s", (_, [quiet, watch, bad], way) => {
    const steps = Array.from({ length: 11 }, (_, at) => lightness(heat(at / 10, quiet, watch, bad)));
    for (let at = 1; at < steps.length; at += 1)
      expect(way * ((steps[at] ?? 0) - (steps[at - 1] ?? 0))).toBeGreaterThan(0);
  });
  it("holds the ends of the scale", () => {
    expect(heat(-1, ...LIGHT)).toEqual(LIGHT[0]);
    expect(heat(7, ...LIGHT)).toEqual(LIGHT[2]);
  });
  it("makes shades that differ from their neighbours", () => {
    const made = shades(rgbOf("#2f6fdb"), 6, false);
    expect(new Set(made.map(String)).size).toBe(6);
  });
  it("rounds up to a number that people read", () => {
    expect([0.0371, 41, 100, 0, NaN].map(roundUp)).toEqual([0.04, 50, 100, 1, 1]);
  });
});
