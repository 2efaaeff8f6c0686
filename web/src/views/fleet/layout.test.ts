import { describe, expect, it } from "vitest";
import { columnsOf, Finder, layoutOf, type Group } from "./layout";

function racks(count: number, each: number, perPod: number): Group[] {
  const rack = (at: number) => ({
    name: `r${at}`,
    hosts: Array.from({ length: each }, (_, host) => at * each + host),
  });
  return Array.from({ length: Math.ceil(count / perPod) }, (_, pod) => ({
    name: `p${pod}`,
    inner: Array.from({ length: Math.min(perPod, count - pod * perPod) }, (_, at) => rack(pod * perPod + at)),
  }));
}

describe("layout", () => {
  it.each([
    [1, 1, 1],
    [3, 8, 2],
    [40, 32, 4],
  ])("puts every host of %i racks x %i into its rack and pod, none over another", (count, each, perPod) => {
    const layout = layoutOf(racks(count, each, perPod), count * each, 1.8);
    const seen = new Set<string>();
    for (let host = 0; host < count * each; host += 1) {
      const [x, y] = [layout.x[host] ?? NaN, layout.y[host] ?? NaN];
      seen.add(`${x.toFixed(3)} ${y.toFixed(3)}`);
      for (const name of [`r${Math.floor(host / each)}`, `p${Math.floor(host / each / perPod)}`]) {
        const block = layout.blocks.find((one) => one.name === name);
        expect(block).toBeDefined();
        if (!block) continue;
        expect(x).toBeGreaterThanOrEqual(block.x - 1e-4);
        expect(x + 1).toBeLessThanOrEqual(block.x + block.width + 1e-4);
        expect(y + 1).toBeLessThanOrEqual(block.y + block.height + 1e-4);
      }
      expect(x + 1).toBeLessThanOrEqual(layout.width + 1e-4);
      expect(y + 1).toBeLessThanOrEqual(layout.height + 1e-4);
    }
    expect(seen.size).toBe(count * each);
  });
  it("takes about the shape of the screen", () => {
    const { width, height } = layoutOf(racks(400, 32, 4), 12_800, 1.8);
    expect(width / height).toBeGreaterThan(1.2);
    expect(width / height).toBeLessThan(3);
  });
  it("leaves few places empty", () => {
    expect([1, 2, 8, 9, 32, 64].map((tiles) => columnsOf(tiles, 1.4))).toEqual([1, 2, 4, 3, 8, 8]);
    for (let tiles = 1; tiles < 300; tiles += 1) {
      const columns = columnsOf(tiles, 1);
      expect(Math.ceil(tiles / columns) * columns).toBeGreaterThanOrEqual(tiles);
      expect(columns).toBeLessThanOrEqual(tiles + 1);
    }
  });
  it("of nobody is empty", () => {
    expect(layoutOf([], 0, 2)).toMatchObject({ width: 0, height: 0, blocks: [] });
  });
});

describe("finder", () => {
  const layout = layoutOf(racks(2, 4, 1), 8, 2);
  const finder = new Finder(layout);
  it("finds each tile by its middle and its edge, and nothing between groups", () => {
    for (let host = 0; host < 8; host += 1) {
      const [x, y] = [layout.x[host] ?? 0, layout.y[host] ?? 0];
      expect(finder.at(x + 0.5, y + 0.5)).toBe(host);
      expect(finder.at(x + 0.01, y + 0.99)).toBe(host);
    }
    expect(finder.at(-3, 0)).toBe(-1);
    expect(finder.at(2.5, (layout.y[0] ?? 0) + 0.5)).toBe(-1);
  });
  it("steps to the neighbour, and stays where there is none", () => {
    expect(finder.next(0, 1, 0)).toBe(1);
    expect(finder.next(0, 0, 1)).toBe(2);
    expect(finder.next(1, 1, 0)).toBe(4);
    expect(finder.next(0, -1, 0)).toBe(0);
  });
});
