import { describe, expect, it } from "vitest";
import {
  ago,
  clock,
  DEFAULT_SPAN,
  ends,
  exactClock,
  localClock,
  momentOf,
  S,
  spanOf,
  spanParams,
} from "./time";

const AT = Date.UTC(2026, 10, 20, 13, 41, 7, 250) * 1e6;

describe("moments", () => {
  it("are told in UTC, with the day where it is another", () => {
    expect(clock(AT, AT + 60 * S)).toBe("13:41:07");
    expect(clock(AT, AT + 86_400 * S)).toBe("2026-11-20 13:41:07");
    expect(exactClock(AT)).toBe("2026-11-20 13:41:07.250 UTC");
  });

  it("are told in local time on request", () => {
    expect(localClock(AT, "Asia/Tokyo")).toContain("22:41:07");
  });

  it("are read in every way that the page writes them", () => {
    expect(momentOf("2026-11-20T13:41:07.250Z")).toBe(AT);
    expect(momentOf("2026-11-20 13:41:07")).toBe(AT - 0.25 * S);
    expect(momentOf("13:41", AT)).toBe(Date.UTC(2026, 10, 20, 13, 41) * 1e6);
    expect(momentOf("13:41")).toBeNull();
    expect(momentOf("yesterday", AT)).toBeNull();
    expect(momentOf("25:99", AT)).toBeNull();
  });

  it("are told as ages", () => {
    expect(ago(AT, AT + 41 * S)).toBe("41 s ago");
    expect(ago(AT, AT)).toBe("now");
  });
});

describe("spans", () => {
  it.each(["last=5m", "last=6h", "last=7d", "last=90s", ""])("%s is kept by the URL", (text) => {
    const span = spanOf(new URLSearchParams(text));
    expect(new URLSearchParams(spanParams(span)).toString()).toBe(text);
  });

  it("with two ends are kept to the millisecond", () => {
    const span = { fromNs: AT, toNs: AT + 60 * S };
    expect(spanOf(new URLSearchParams(spanParams(span)))).toEqual(span);
  });

  it.each([
    "last=0m",
    "last=9999d",
    "last=h",
    "from=2026-11-20T14:00:00Z",
    "from=x&to=y",
    "from=2026-11-20T14:00:00Z&to=2026-11-20T13:00:00Z",
  ])("%s is no span: the default", (text) => {
    expect(spanOf(new URLSearchParams(text))).toEqual(DEFAULT_SPAN);
  });

  it("end now where they follow", () => {
    expect(ends({ lastS: 60 }, AT)).toEqual({ fromNs: AT - 60 * S, toNs: AT });
  });
});
