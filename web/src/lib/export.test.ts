import { expect, it } from "vitest";
import { csv, json } from "./export";

it("quotes what needs it and keeps formulas text", () => {
  expect(
    csv(
      ["a", "b"],
      [
        ["x,y", 'say "so"'],
        ["=1+1", -1],
        [null, undefined],
      ],
    ),
  ).toBe(`a,b\r\n"x,y","say ""so"""\r\n'=1+1,-1\r\n,\r\n`);
});

it("writes objects, with null for what is missing", () => {
  expect(JSON.parse(json(["a", "b"], [[1]]))).toEqual([{ a: 1, b: null }]);
});
