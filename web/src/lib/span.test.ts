import { describe, expect, it } from "vitest";
import { fieldText, momentWords, readSpan, spanParams, spanWords, wider } from "./span";
import { DEFAULT_SPAN, S } from "./time";

const at = (text: string) => Date.parse(`${text}Z`) * 1e6;
const NOW = at("2026-11-27T14:30:00");
const read = (text: string) => readSpan(new URLSearchParams(text), () => NOW);

describe("a URL's span", () => {
  it.each(["last=5m", "last=6h", "last=7d", "last=90s", ""])("'%s' is kept by the URL", (text) => {
    const { span, problem } = read(text);
    expect(new URLSearchParams(spanParams(span)).toString()).toBe(text);
    expect(problem).toBe("");
  });

  it("with two ends is kept to the millisecond", () => {
    const span = { fromNs: NOW + 250e6, toNs: NOW + 60 * S };
    expect(readSpan(new URLSearchParams(spanParams(span)), () => 0).span).toEqual(span);
  });

  it.each([
    ["from=now-6h&to=now", { lastS: 21_600 }],
    ["from=now-6h", { lastS: 21_600 }],
    ["from=-15m", { lastS: 900 }],
    ["from=yesterday&to=yesterday", { fromNs: at("2026-11-26T00:00"), toNs: at("2026-11-27T00:00") }],
    ["from=now-1d/d&to=now-1d/d", { fromNs: at("2026-11-26T00:00"), toNs: at("2026-11-27T00:00") }],
    ["from=now-2h&to=now-1h", { fromNs: at("2026-11-27T12:30"), toNs: at("2026-11-27T13:30") }],
    ["from=14:02&to=14:10", { fromNs: at("2026-11-27T14:02"), toNs: at("2026-11-27T14:10") }],
    ["from=2026-11-27T14:00", { fromNs: at("2026-11-27T14:00"), toNs: NOW }],
  ])("'%s' is read as people mean it", (text, span) => expect(read(text)).toEqual({ span, problem: "" }));

  it.each([
    ["from=bogus", "got 'bogus'"],
    ["from=now-1h&to=bogus", "got 'bogus'"],
    ["to=now", "'to' alone"],
    ["from=2026-11-20T14:00:00Z&to=2026-11-20T13:00:00Z", "before 'to'"],
    ["last=0m", "got '0m'"],
    ["last=9999d", "up to 366 d"],
    ["last=h", "expected 15m"],
  ])("'%s' is told, and the default is shown", (text, problem) => {
    expect(read(text).span).toEqual(DEFAULT_SPAN);
    expect(read(text).problem).toContain(problem);
  });

  it("that has no relative time does not move with the time", () => {
    const never = () => {
      throw new Error("asked for the time");
    };
    const params = new URLSearchParams("from=2026-11-20T14:00:00Z&to=2026-11-20T15:00:00Z");
    expect(readSpan(params, never).problem).toBe("");
  });
});

describe("a span in words", () => {
  const span = (from: string, to: string) => ({ fromNs: at(from), toNs: at(to) });
  it.each([
    [{ lastS: 3600 }, "last 1 h"],
    [{ lastS: 7200 }, "last 2 h"],
    [{ lastS: 5400 }, "last 90 min"],
    [{ lastS: 86_400 }, "last 24 h"],
    [{ lastS: 604_800 }, "last 7 d"],
    [{ lastS: 90 }, "last 90 s"],
    [span("2026-11-27T14:02", "2026-11-27T15:02"), "Nov 27, 14:02 to 15:02 UTC"],
    [span("2026-11-27T14:02:05", "2026-11-27T14:02:50"), "Nov 27, 14:02:05 to 14:02:50 UTC"],
    [span("2026-11-26T23:00", "2026-11-27T01:00"), "Nov 26, 23:00 to Nov 27, 01:00 UTC"],
    [span("2025-11-27T14:02", "2025-11-27T15:02"), "Nov 27 2025, 14:02 to 15:02 UTC"],
  ])("has date and zone", (one, words) => expect(spanWords(one, NOW)).toBe(words));
});

it("a moment in words has date and zone", () => {
  expect(momentWords(at("2026-11-20T20:23:20"), NOW)).toBe("Nov 20, 20:23 UTC");
  expect(momentWords(at("2025-11-20T20:23:20"), NOW)).toBe("Nov 20 2025, 20:23 UTC");
});

describe("zooming out", () => {
  it("doubles around the middle, not past now", () => {
    const hour = { fromNs: at("2026-11-27T10:00"), toNs: at("2026-11-27T11:00") };
    expect(wider(hour, NOW)).toEqual({ fromNs: at("2026-11-27T09:30"), toNs: at("2026-11-27T11:30") });
    const newest = { fromNs: at("2026-11-27T13:30"), toNs: NOW };
    expect(wider(newest, NOW)).toEqual({ fromNs: at("2026-11-27T12:30"), toNs: NOW });
  });
  it("goes on following", () => expect(wider({ lastS: 3600 }, NOW)).toEqual({ lastS: 7200 }));
});

it("a field shows a moment as it is read back", () => {
  expect(fieldText(NOW, "utc")).toBe("2026-11-27 14:30:00");
});
