import { describe, expect, it } from "vitest";
import { grouped, type Hit, hrefWith, read, written } from "./query";

const NOW = Date.UTC(2026, 10, 20, 15) * 1e6;
const HERE = { path: "/incidents", params: { state: "open" } };
const AROUND = { from: "2026-11-20T13:59:30.000Z", to: "2026-11-20T14:04:30.000Z" };

describe("a query", () => {
  it.each([
    ["job:bert-7", "/jobs/bert-7", {}],
    ["job:bert-7 rank:13", "/jobs/bert-7", { rank: "13" }],
    ["rank:bert-7/13", "/jobs/bert-7", { rank: "13" }],
    ["incident:bert-7-slow-1", "/incidents/bert-7-slow-1", {}],
  ])("'%s' leads to %s", (text, path, params) =>
    expect(read(text, NOW, HERE)).toEqual({ place: { path, params }, words: text, span: {} }),
  );

  it.each(["thrott", "10.0.0.3", "rack r4", "02:ab:cd"])("'%s' is searched for", (text) =>
    expect(read(text, NOW, HERE)).toEqual({ place: null, words: text, span: {} }),
  );

  it("has names without their kinds amid other words", () => {
    expect(read("eth0 host:h3", NOW, HERE)).toMatchObject({ place: null, words: "eth0 h3" });
  });

  it("of time alone stays on the view", () => {
    expect(read("at:14:02", NOW, HERE)).toEqual({ place: HERE, words: "", span: AROUND });
    expect(read("last:15m", NOW, HERE)).toEqual({ place: HERE, words: "", span: { last: "15m" } });
  });

  it("has the five minutes around a moment with its place", () => {
    const found = read("job:bert-7 at:14:02", NOW, HERE);
    expect("span" in found && found.span).toEqual(AROUND);
  });

  it("of a rank is one of the job that is shown", () => {
    const job = { path: "/jobs/bert-7", params: {} };
    const found = read("rank:13", NOW, job);
    expect("place" in found && found.place).toEqual({ path: "/jobs/bert-7", params: { rank: "13" } });
    expect(read("rank:13", NOW, HERE)).toMatchObject({ place: null });
  });

  it.each([
    ["at:noon", "14:02"],
    ["last:soon", "15m"],
    ["job:", "a name"],
  ])("'%s' is told what was expected", (text, expected) => {
    const answer = read(text, NOW, HERE);
    expect("problem" in answer && answer.problem).toContain(expected);
  });

  it("is written from a place as it would be typed", () => {
    expect(written("/jobs/bert-7", new URLSearchParams("rank=13"))).toBe("job:bert-7 rank:13");
    expect(written("/fleet", new URLSearchParams("at=host:n12"))).toBe("host:n12");
    expect(written("/entity", new URLSearchParams("of=gpu:GPU-5c1e"))).toBe("gpu:GPU-5c1e");
    expect(written("/", new URLSearchParams())).toBe("");
  });
});

it("a span takes the place of the one that was there", () => {
  expect(hrefWith({ path: "/jobs", params: { match: "b", from: "x", to: "y" } }, { last: "15m" })).toBe(
    "/jobs?match=b&last=15m",
  );
  expect(hrefWith({ path: "/jobs", params: {} }, {})).toBe("/jobs");
});

it("hits are shown by kind, the kind of the best first", () => {
  const hit = (kind: string, id: string): Hit => ({
    kind,
    id,
    title: id,
    why: "",
    detail: "",
    link: "/",
    cluster: "",
  });
  const groups = grouped([hit("host", "h3"), hit("port", "h3/eth0"), hit("host", "h30")], {
    host: 12,
    port: 1,
  });
  expect(groups.map((one) => [one.title, one.hits.length, one.more])).toEqual([
    ["Hosts", 2, 10],
    ["NIC ports", 1, 0],
  ]);
});
