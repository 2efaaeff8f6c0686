import { describe, expect, it } from "vitest";
import { covers, fit, held, read, written, zoomed } from "./tiles";

const SCREEN = { width: 1000, height: 600 };

describe("view of tiles", () => {
  it("is written for a URL and read on a screen of any size, the same place in its middle", () => {
    const text = written({ scale: 20, x: -300, y: -100 }, SCREEN);
    expect(text).toBe("40_20_20");
    expect(read(text, SCREEN)).toEqual({ scale: 20, x: -300, y: -100 });
    const other = { width: 500, height: 300 };
    expect(written(read(text, other), other)).toBe(text);
    expect(written(undefined, SCREEN)).toBe("");
    for (const nothing of ["", "1_2", "1_2_0", "1_2_x", "1_2_3_4"])
      expect(read(nothing, SCREEN)).toBeUndefined();
  });
  it("shows all, in the middle, and does not blow a small fleet up", () => {
    const view = fit({ width: 100, height: 50 }, SCREEN);
    expect(100 * view.scale).toBeLessThanOrEqual(SCREEN.width);
    expect(50 * view.scale).toBeLessThanOrEqual(SCREEN.height);
    expect(fit({ width: 2, height: 1 }, SCREEN).scale).toBe(132);
    expect(fit({ width: 0, height: 0 }, SCREEN).scale).toBe(1);
  });
  it("keeps the point under the pointer while it zooms, within its ends", () => {
    const before = { scale: 10, x: 5, y: 7 };
    const after = zoomed(before, 2, 300, 200, 1, 100);
    expect((300 - after.x) / after.scale).toBeCloseTo((300 - before.x) / before.scale);
    expect((200 - after.y) / after.scale).toBeCloseTo((200 - before.y) / before.scale);
    expect(zoomed(before, 1000, 0, 0, 1, 100).scale).toBe(100);
    expect(zoomed(before, 0, 0, 0, 1, 100).scale).toBe(1);
  });
  it("never loses the fleet", () => {
    const layout = { width: 10, height: 10 };
    expect(held({ scale: 10, x: 99_999, y: 0 }, layout, SCREEN).x).toBeLessThan(SCREEN.width);
    expect(held({ scale: 10, x: -99_999, y: 0 }, layout, SCREEN).x).toBeGreaterThan(-100);
  });
  it("knows when what was drawn is enough", () => {
    const drawn = { scale: 4, x: 0, y: 0 };
    expect(covers(drawn, { scale: 4, x: 100, y: -100 }, { width: 200, height: 100 })).toBe(true);
    expect(covers(drawn, { scale: 4, x: 201, y: 0 }, { width: 200, height: 100 })).toBe(false);
    expect(covers(drawn, { scale: 4.1, x: 0, y: 0 }, { width: 200, height: 100 })).toBe(false);
  });
});
