import { expect, test } from "vitest";
import { apart, blind, gapAfter, gapsOf, lastOf, sparkPath, spoken, stacked, tick, valueRange } from "./plot";
import { S } from "./time";

const at = (...seconds: number[]) => seconds.map((one) => one * S);

test("a silence is a gap when it is long for this stream", () => {
  const timeNs = at(0, 5, 10, 15, 60, 65);
  const line = { label: "x", values: [1, 1, 1, 1, 1, 1] };
  expect(gapAfter(timeNs, [line])).toBe(17.5 * S);
  expect(gapsOf(timeNs, line.values, 17.5 * S)).toEqual([{ fromNs: 15 * S, toNs: 60 * S }]);
});

test("nulls of a finer axis are no gap by themselves", () => {
  expect(gapsOf(at(0, 1, 2, 3, 4), [1, null, null, null, 1], 5 * S)).toEqual([]);
});

test("where nothing is known the plot is blind, at its ends too", () => {
  const lines = [
    { label: "a", values: [null, 1, null, null] },
    { label: "b", values: [null, null, 2, null] },
  ];
  const found = blind(at(0, 10, 20, 30), lines, 12 * S, { fromNs: -10 * S, toNs: 40 * S });
  expect(found).toEqual([
    { fromNs: -10 * S, toNs: 10 * S },
    { fromNs: 20 * S, toNs: 40 * S },
  ]);
});

test("a plot without a value is blind all over", () => {
  expect(blind([], [{ label: "a", values: [] }], S, { fromNs: 0, toNs: 9 * S })).toEqual([
    { fromNs: 0, toNs: 9 * S },
  ]);
});

test("stacks add up, and have a hole where a part is not known", () => {
  const lines = [
    { label: "a", values: [1, 2, 3] },
    { label: "b", values: [10, null, 30] },
  ];
  expect(stacked(lines)).toEqual([
    [1, 2, 3],
    [11, null, 33],
  ]);
});

test("a value axis begins at zero unless that hides the change", () => {
  expect(valueRange(100, 210)[0]).toBe(0);
  expect(valueRange(60, 62)[0]).toBeGreaterThan(59);
  expect(valueRange(5, 5)).toEqual([0, 6.5]);
  expect(valueRange(0, 0)).toEqual([0, 1]);
  expect(valueRange(-10, -1)[1]).toBe(0);
  expect(valueRange(null, null)).toEqual([0, 1]);
});

test("moments are as fine as the marks of the axis", () => {
  const noon = Date.UTC(2026, 10, 20, 13, 41, 7) / 1000;
  expect(tick(noon, 86_400)).toBe("20 Nov");
  expect(tick(noon, 60)).toBe("13:41");
  expect(tick(noon, 1)).toBe("13:41:07");
  expect(tick(noon + 0.25, 0.05)).toBe("13:41:07.250");
  expect(tick(Date.UTC(2026, 10, 21) / 1000, 3600)).toBe("21 Nov");
});

test("a plot is told in a sentence", () => {
  const lines = [{ label: "step", values: [0.169, null, 0.21] }];
  expect(spoken("Step time", at(0, 30, 60), lines, "s")).toBe(
    "Step time, 60 s. step: 169 ms to 210 ms, last 210 ms",
  );
  expect(spoken("Step time", [], lines, "s")).toBe("Step time: no values");
  expect(lastOf([1, 2, null])).toBe(2);
});

test("a sparkline lifts the pen over a gap", () => {
  const path = sparkPath(
    at(0, 1, 10),
    [1, 2, 3],
    5 * S,
    (ns) => ns / S,
    (value) => value,
  );
  expect(path).toBe("M0.0 1.0L1.0 2.0M10.0 3.0");
});

test("marks too near to a link before them have none", () => {
  const marks = [
    { x: 40, href: "/b" },
    { x: 10, href: "/a" },
    { x: 12 },
    { x: 30, href: "/c" },
    { x: 60, href: "/d" },
  ];
  expect(apart(marks).map((one) => [one.x, one.href])).toEqual([
    [10, "/a"],
    [12, undefined],
    [30, undefined],
    [40, "/b"],
    [60, undefined],
  ]);
});
