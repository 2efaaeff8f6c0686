import { expect, test } from "vitest";
import { pieces } from "./docs";

test("a page of the docs becomes a link, wherever it stands", () => {
  const href = "/docs/how-to/send-sflow/";
  expect(pieces("docs/how-to/send-sflow.md")).toEqual([{ text: "send sflow", href }]);
  expect(pieces("run `leadline doctor`; see docs/how-to/send-sflow.md.")).toEqual([
    { text: "run " },
    { text: "leadline doctor", code: true },
    { text: "; see " },
    { text: "send sflow", href },
    { text: "." },
  ]);
  expect(pieces("see `docs/how-to/send-sflow.md`")).toEqual([{ text: "see " }, { text: "send sflow", href }]);
});

test("other words stay as they are", () => {
  expect(pieces("")).toEqual([]);
  expect(pieces("the probe mesh")).toEqual([{ text: "the probe mesh" }]);
  expect(pieces("`cat docs/a.md`")).toEqual([{ text: "cat docs/a.md", code: true }]);
});
