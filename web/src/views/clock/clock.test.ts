import { expect, test } from "vitest";
import {
  asymmetry,
  bothWays,
  type Clock,
  clockState,
  doubtedFirst,
  drift,
  measureOf,
  offset,
  pairOf,
  told,
  type Window,
} from "./clock";

const CLOCK: Clock = {
  tenant: "provider",
  cluster: "default",
  host: "h1",
  clock: "realtime",
  end_ns: 1,
  offset_ns: -1200,
  bound_ns: 300,
  rate_ppb: 12.5,
  noise_ns: 40,
  daemon_bound_ns: null,
  island: 1,
  state: "fitted",
  doubts: [],
};
const WINDOW: Window = {
  end_ns: 1,
  window_ns: 10e9,
  min_ns: 4000,
  p50_ns: 5000,
  p99_ns: 9000,
  queue_p99_ns: 5000,
  lost: 0,
  count: 100,
  bound_ns: 200,
};

test("no offset without its bound, none at all of a lost clock", () => {
  expect(offset(CLOCK)).toBe("-1.2 µs ± 300 ns");
  expect(offset({ ...CLOCK, offset_ns: 5, bound_ns: 2000 })).toBe("+5 ns ± 2 µs");
  expect(offset({ ...CLOCK, state: "lost" })).toBe("unknown");
  expect(drift(CLOCK)).toBe("+12.5 ppb");
  expect(["fitted", "carried", "lost"].map((state) => clockState({ ...CLOCK, state }))).toEqual([
    "good",
    "watch",
    "unknown",
  ]);
  expect(clockState({ ...CLOCK, doubts: ["on island 2"] })).toBe("watch");
});

test("doubtful clocks come first, the least certain of each first", () => {
  const clocks = [CLOCK, { ...CLOCK, host: "h2", doubts: ["lost"] }, { ...CLOCK, host: "h3" }];
  expect(doubtedFirst(clocks).map((one) => one.host)).toEqual(["h2", "h1", "h3"]);
});

test("a median has its bound as a band, and a gap where nothing arrived", () => {
  const there = [WINDOW, { ...WINDOW, end_ns: 2, bound_ns: null }, { ...WINDOW, end_ns: 3, lost: 1 }];
  const { times, lines } = bothWays(["h1 to h2", "h2 to h1"], there, [
    { ...WINDOW, end_ns: 2, p50_ns: 100, bound_ns: 200 },
  ]);
  expect(times).toEqual([1, 2]);
  expect(lines.map((one) => one.label)).toEqual(["h1 to h2", "h1 to h2, p99", "h2 to h1", "h2 to h1, p99"]);
  expect(lines[0]?.values).toEqual([5e-6, 5e-6]);
  expect(lines[0]?.low).toEqual([4.8e-6, null]);
  expect(lines[2]?.low).toEqual([null, 0]);
  expect(lines[2]?.high?.[1]).toBeCloseTo(3e-7, 12);
});

test("measures have their units", () => {
  expect(told(41_000, "ns")).toBe("41 µs");
  expect(told(0.012, "ratio")).toBe("1.2 %");
  expect(measureOf("lost")).toBe("lost");
  expect(measureOf("nonsense")).toBe("queue_p50");
});

test("pairs of a URL", () => {
  expect(pairOf("h1~h2")).toEqual({ src: "h1", dst: "h2" });
  for (const text of ["", "h1", "h1~", "h1~h1", "a~b~c"]) expect(pairOf(text)).toBeUndefined();
});

test("two ways differ only if the clocks allow to say so", () => {
  expect(asymmetry(WINDOW, { ...WINDOW, p50_ns: 5300 })).toContain("within what the clocks leave open");
  expect(asymmetry(WINDOW, { ...WINDOW, p50_ns: 9000 })).toContain("the paths differ");
  expect(asymmetry(WINDOW, { ...WINDOW, bound_ns: null })).toContain("unknown");
  expect(asymmetry(WINDOW, undefined)).toContain("nothing to compare");
  expect(asymmetry(WINDOW, { ...WINDOW, lost: 1 })).toContain("nothing arrives");
});
