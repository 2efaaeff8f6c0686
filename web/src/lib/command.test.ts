import { expect, test } from "vitest";
import { quoted } from "./command";

test.each([
  ["bert-1", "bert-1"],
  ["rank:bert-1/5", "rank:bert-1/5"],
  ["a b", "'a b'"],
  ["x; reboot", "'x; reboot'"],
  ["$(id)", "'$(id)'"],
  ["it's", `'it'"'"'s'`],
  ["é", "'é'"],
  ["plain\n", "'plain\n'"],
  ["", "''"],
])("%j is one word of a shell: %s", (word, expected) => {
  expect(quoted(word)).toBe(expected);
});
