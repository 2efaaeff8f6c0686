import { describe, expect, it } from "vitest";
import { cellAt, labelStep, moved, summary } from "./grid";

describe("grid", () => {
  const box = { left: 10, top: 20, width: 100, height: 40 };
  it("finds the cell under a point, and none outside", () => {
    expect(cellAt(10, 20, box, 4, 10)).toEqual({ row: 0, column: 0 });
    expect(cellAt(109.9, 59.9, box, 4, 10)).toEqual({ row: 3, column: 9 });
    expect(cellAt(110, 30, box, 4, 10)).toBeUndefined();
    expect(cellAt(9, 30, box, 4, 10)).toBeUndefined();
  });
  it("moves within the grid", () => {
    expect(moved(undefined, "ArrowDown", 4, 10)).toEqual({ row: 0, column: 0 });
    expect(moved({ row: 3, column: 5 }, "ArrowDown", 4, 10)).toEqual({ row: 3, column: 5 });
    expect(moved({ row: 1, column: 5 }, "End", 4, 10)).toEqual({ row: 1, column: 9 });
    expect(moved({ row: 1, column: 5 }, "x", 4, 10)).toBeUndefined();
    expect(moved(undefined, "ArrowDown", 0, 0)).toBeUndefined();
  });
  it("writes only labels that have room", () => {
    expect(labelStep(8, 200)).toBe(1);
    expect(labelStep(512, 280)).toBe(32);
  });
  it("knows the largest, and counts what is missing", () => {
    expect(
      summary([
        [1, null],
        [NaN, 7],
      ]),
    ).toEqual({ known: 2, cells: 4, max: 7, at: { row: 1, column: 1 } });
    expect(summary([[null]])).toEqual({ known: 0, cells: 1, max: 0, at: undefined });
  });
});
