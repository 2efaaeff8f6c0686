import { expect, it } from "vitest";
import { stateOf, worst } from "./state";

it("never draws what nobody knows as good", () => {
  expect(stateOf("ok")).toBe("good");
  expect(stateOf("CRITICAL")).toBe("bad");
  for (const word of ["", null, undefined, "purple"]) expect(stateOf(word)).toBe("unknown");
});

it("takes the worst, and unknown of nothing", () => {
  expect(worst(["good", "watch", "unknown"])).toBe("watch");
  expect(worst(["good", "unknown"])).toBe("unknown");
  expect(worst([])).toBe("unknown");
});
