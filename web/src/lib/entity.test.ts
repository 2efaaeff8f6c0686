import { describe, expect, it } from "vitest";
import { entityOf, hrefOf, jobOf, shortName } from "./entity";

describe("entities", () => {
  it("split at the first colon", () => {
    expect(entityOf("link:h3/eth0~leaf1/Ethernet3")).toEqual({
      kind: "link",
      name: "h3/eth0~leaf1/Ethernet3",
    });
    expect(entityOf("bert")).toEqual({ kind: "", name: "bert" });
  });

  it.each([
    ["job:bert-7", "bert-7"],
    ["rank:bert-7/13", "bert-7"],
    ["rank:bert-7/0>rank:bert-7/1", "bert-7"],
    ["comm:bert-7/0x9c", "bert-7"],
    ["host:h3", ""],
  ])("%s belongs to job '%s'", (id, job) => expect(jobOf(id)).toBe(job));

  it.each([
    ["job:a b", "/jobs/a%20b"],
    ["rank:bert-7/13", "/jobs/bert-7?rank=13"],
    ["host:h3", "/entity?of=host%3Ah3"],
    ["link:h3/eth0~leaf1/Ethernet3", "/entity?of=link%3Ah3%2Feth0~leaf1%2FEthernet3"],
    ["flow:00ed", "/graph?at=flow%3A00ed"],
    ["rank:j/0>rank:j/1", "/jobs/j?rank=0"],
  ])("%s leads to %s", (id, href) => expect(hrefOf(id)).toBe(href));

  it.each([
    ["rank:a/b/13", "rank 13"],
    ["gpu:GPU-be1914a2-b5fd-5d10", "GPU-be1914a2"],
    ["link:h3/eth0~leaf1/Ethernet3", "h3/eth0 to leaf1"],
    ["host:h3", "h3"],
  ])("%s is called %s where there is little room", (id, name) => expect(shortName(id)).toBe(name));
});
