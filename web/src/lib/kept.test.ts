import { afterEach, expect, test, vi } from "vitest";
import { keep, recall } from "./kept";

afterEach(() => vi.unstubAllGlobals());

test("what is kept is recalled", () => {
  const held = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => held.get(name) ?? null,
    setItem: (name: string, value: string) => held.set(name, value),
  });
  keep("a", "b");
  expect([recall("a"), recall("c")]).toEqual(["b", ""]);
});

test("a browser that blocks its storage throws at the mere word, and breaks nothing", () => {
  vi.stubGlobal("localStorage", undefined);
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    get: () => {
      throw new DOMException("denied", "SecurityError");
    },
  });
  keep("a", "b");
  expect(recall("a")).toBe("");
});
