import { describe, expect, it } from "vitest";
import { momentOf } from "./moment";

const at = (text: string) => Date.parse(`${text}Z`) * 1e6;
const NOW = at("2026-11-27T14:30:00"); // a Friday

// The same cases as of the API: tests/unit/views/test_times.py.
describe("a moment", () => {
  it.each([
    ["14:02", "2026-11-27T14:02"],
    ["9:05:30", "2026-11-27T09:05:30"],
    ["23:50", "2026-11-26T23:50"],
    ["today 23:50", "2026-11-27T23:50"],
    ["yesterday 14:02", "2026-11-26T14:02"],
    ["today", "2026-11-27T00:00"],
    ["yesterday", "2026-11-26T00:00"],
    ["now", "2026-11-27T14:30"],
    ["-15m", "2026-11-27T14:15"],
    ["-1.5h", "2026-11-27T13:00"],
    ["now-6h", "2026-11-27T08:30"],
    ["now-1d+2h", "2026-11-26T16:30"],
    ["now-1d/d", "2026-11-26T00:00"],
    ["now/h", "2026-11-27T14:00"],
    ["now/w", "2026-11-23T00:00"],
    ["2026-11-20T14:02:05", "2026-11-20T14:02:05"],
    ["2026-11-20 14:02:05", "2026-11-20T14:02:05"],
    ["2026-11-20T14:02:05+01:00", "2026-11-20T13:02:05"],
    ["2026-11-20", "2026-11-20T00:00"],
    ["1795206200000000000", "2026-11-20T20:23:20"],
  ])("'%s' is %s", (text, moment) => expect(momentOf(text, { nowNs: NOW })).toBe(at(moment)));

  it.each([
    ["yesterday", "2026-11-27T00:00"],
    ["now-1d/d", "2026-11-27T00:00"],
    ["today", "2026-11-27T14:30"],
    ["now-6h", "2026-11-27T08:30"],
  ])("'%s' as an end is %s", (text, moment) =>
    expect(momentOf(text, { nowNs: NOW, end: true })).toBe(at(moment)),
  );

  it.each(["bogus", "", "25:00", "14:99", "now-", "now-6", "now/x", "-6y", "-", "2026-13-01", "tomorrow"])(
    "'%s' is none",
    (text) => expect(momentOf(text, { nowNs: NOW })).toBeNull(),
  );

  it("is read in the reader's zone on request", () => {
    const off = -new Date(NOW / 1e6).getTimezoneOffset() * 60e9;
    expect(momentOf("2026-11-27 14:02", { nowNs: NOW, zone: "local" })).toBe(at("2026-11-27T14:02") - off);
  });
});
