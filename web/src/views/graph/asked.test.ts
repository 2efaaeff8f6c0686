import { expect, it } from "vitest";
import { happening, momentAsked, openOf, openText, rangeOf, rootOf, shareOf, turned } from "./asked";

const S = 1e9;

it("asks for the job, else the entity at the root, else the one chosen", () => {
  expect(rootOf("a", "switch:s", "host:h")).toEqual({ job: "a" });
  expect(rootOf("", "switch:s", "host:h")).toEqual({ of: "switch:s" });
  expect(rootOf("", "", "host:h")).toEqual({ of: "host:h" });
  expect(rootOf("", "", "job:a")).toEqual({ job: "a" });
  expect(rootOf("", "", "")).toBeNull();
});

it("asks about the slider's moment, the end of a still span, or now", () => {
  const still = { fromNs: 1e18, toNs: 2e18 };
  expect(momentAsked("2026-11-20T20:22:10.000Z", still)).toBe("1795206130000000000");
  expect(momentAsked("", still)).toBe("2000000000000000000");
  expect(momentAsked("nonsense", { lastS: 60 })).toBe("");
});

it("keeps open groups in the URL", () => {
  const open = turned(openOf("port@host:h2|rank@leaf1+leaf2"), "port@host:h2");
  expect(openText(open)).toBe("rank@leaf1+leaf2");
  expect(openText(turned(open, "x@y"))).toBe("rank@leaf1+leaf2|x@y");
  expect(openOf("").size).toBe(0);
});

it("slides over the time that the thing was there, as far as the page shows it", () => {
  const there = { from_ns: 100 * S, to_ns: 200 * S };
  expect(rangeOf(there, { fromNs: 150 * S, toNs: 400 * S }, 500 * S)).toEqual({
    fromNs: 150 * S,
    toNs: 200 * S,
  });
  expect(rangeOf(there, { fromNs: 300 * S, toNs: 400 * S }, 500 * S)).toEqual({
    fromNs: 100 * S,
    toNs: 200 * S,
  });
  expect(rangeOf({ from_ns: 100 * S, to_ns: null }, { lastS: 50 }, 500 * S)).toEqual({
    fromNs: 450 * S,
    toNs: 500 * S,
  });
  expect(shareOf(175 * S, { fromNs: 150 * S, toNs: 200 * S })).toBe(0.5);
});

it("shows an open incident at every moment since it began, and what came or went only then", () => {
  const open = { start_ns: 100 * S, end_ns: null, what: "incident" };
  const over = { start_ns: 100 * S, end_ns: 120 * S, what: "incident" };
  const came = { start_ns: 100 * S, end_ns: null, what: "came" };
  expect(happening([open, over, came], 101 * S)).toEqual([open, over, came]);
  expect(happening([open, over, came], 500 * S)).toEqual([open]);
  expect(happening([open, over, came], 99 * S)).toEqual([]);
});
