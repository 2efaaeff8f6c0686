import { expect, it } from "vitest";
import { paceMs } from "./pace";

it("asks for small, quick answers every two seconds, for large or slow ones less often, never forgets them", () => {
  expect(paceMs(20, 5000)).toBe(2000);
  expect(paceMs(20, 1_000_000)).toBe(10_000);
  expect(paceMs(900, 5000)).toBe(9000);
  expect(paceMs(60_000, 1e9)).toBe(30_000);
});
