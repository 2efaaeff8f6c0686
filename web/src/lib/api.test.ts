import { afterEach, describe, expect, it, vi } from "vitest";
import { address, ApiError, get } from "./api";

afterEach(() => vi.unstubAllGlobals());

function answers(body: string, status = 200): void {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body, { status })));
}

describe("an address", () => {
  it("fills the path and quotes what it is given", () => {
    expect(address("/api/v1/incidents/{incident}", { incident: "a/b", cluster: "" })).toBe(
      "/api/v1/incidents/a%2Fb",
    );
    expect(address("/api/v1/ledger", { job: "a b", limit: 3 })).toBe("/api/v1/ledger?job=a+b&limit=3");
  });
});

describe("an error", () => {
  it("says what was asked, what came back and what to do", async () => {
    answers('{"error":{"reason":"store","message":"the disk is full"}}', 503);
    const error = await get("/api/v1/doctor", {}).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    const told = error as ApiError;
    expect([told.reason, told.message, told.asked]).toEqual([
      "store",
      "the disk is full",
      "GET /api/v1/doctor",
    ]);
    expect(told.todo).toContain("leadline doctor");
  });

  it("is one too when a proxy answers with its own page", async () => {
    answers("<html>Bad gateway</html>", 502);
    await expect(get("/api/v1/doctor", {})).rejects.toThrow("Bad gateway");
    answers("<html>Welcome</html>", 200);
    await expect(get("/api/v1/doctor", {})).rejects.toMatchObject({ reason: "not_json" });
  });

  it("tells a server that is not there from one that refuses", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("fetch failed")));
    await expect(get("/api/v1/doctor", {})).rejects.toMatchObject({ reason: "unreachable" });
  });
});
