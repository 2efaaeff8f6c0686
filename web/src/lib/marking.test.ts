import { afterEach, expect, test, vi } from "vitest";
import { asActor, say } from "./marking";

afterEach(() => vi.unstubAllGlobals());

test("a name is told as the API takes it", () => {
  expect(asActor("  Ann Bee ")).toBe("Ann-Bee");
  expect(asActor("ann@site.org<script>")).toBe("ann@site.orgscript");
  expect(asActor("x".repeat(99))).toHaveLength(64);
});

test("what is said is one line, and a refusal comes back", async () => {
  const sent: string[] = [];
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    sent.push(String(init.body));
    return Promise.resolve(
      new Response('{"error":{"reason":"unauthorized","message":"no"}}', { status: 401 }),
    );
  });
  const problem = await say({ incident: "i", mark: "wrong", reason: "it was\nthe other", actor: "ann" });
  expect(JSON.parse(sent[0] ?? "")).toMatchObject({ reason: "it was the other", mark: "wrong" });
  expect(problem?.message).toBe("no");
});
