import { expect, test } from "vitest";
import { AGAIN_MS, shouldReload } from "./parts";

test("the page is loaded again once for a part that is missing, not for ever", () => {
  const held = new Map<string, string>();
  const memory = () =>
    ({
      getItem: (name: string) => held.get(name) ?? null,
      setItem: (name: string, value: string) => held.set(name, value),
    }) as unknown as Storage;
  expect(shouldReload(50_000, memory)).toBe(true);
  expect(shouldReload(50_000 + AGAIN_MS - 1, memory)).toBe(false);
  expect(shouldReload(50_000 + AGAIN_MS, memory)).toBe(true);
});

test("a browser without a memory of its session is never sent round", () => {
  const memory = (): Storage => {
    throw new DOMException("denied", "SecurityError");
  };
  expect(shouldReload(50_000, memory)).toBe(false);
});
