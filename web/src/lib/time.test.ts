import { describe, expect, it } from "vitest";
import { ago, clock, ends, exactClock, localClock, S } from "./time";

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

  it("are told as ages", () => {
    expect(ago(AT, AT + 41 * S)).toBe("41 s ago");
    expect(ago(AT, AT)).toBe("now");
  });
});

describe("spans", () => {
  it("end now where they follow", () => {
    expect(ends({ lastS: 60 }, AT)).toEqual({ fromNs: AT - 60 * S, toNs: AT });
  });
});
