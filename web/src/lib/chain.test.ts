import { expect, test } from "vitest";
import { chain } from "./chain";

const edge = (child: string, parent: string, link: string | null = null, used = true) => ({
  child,
  parent,
  link,
  used,
});
const LINK = "link:h3/eth0~leaf1/e3";
const EDGES = [
  edge("job:b", "rank:b/2"),
  edge("rank:b/2", "gpu:G"),
  edge("rank:b/2", "host:h3"),
  edge("gpu:G", "host:h3"),
  edge("host:h3", "port:h3/eth0"),
  edge("port:h3/eth0", "swport:leaf1/e3", LINK),
  edge("swport:leaf1/e3", "port:h3/eth0", LINK),
];

test("a link reaches the job by the port of its host, its rank, and nothing that is no shorter way", () => {
  expect(chain(EDGES, LINK, "b")).toEqual([[LINK], ["port:h3/eth0"], ["host:h3"], ["rank:b/2"], ["job:b"]]);
  expect(chain(EDGES, "gpu:G", "b")).toEqual([["gpu:G"], ["rank:b/2"], ["job:b"]]);
  expect(chain(EDGES, "job:b", "b")).toEqual([["job:b"]]);
});

test("ways of one length stand together, in the order that people count", () => {
  const more = [...EDGES, edge("job:b", "rank:b/10"), edge("rank:b/10", "host:h3")];
  expect(chain(more, "host:h3", "b")).toEqual([["host:h3"], ["rank:b/2", "rank:b/10"], ["job:b"]]);
});

test("where the graph has no way, none is made up", () => {
  expect(chain(EDGES, "host:h9", "b")).toEqual([]);
  expect(chain(EDGES, "host:h3", "other")).toEqual([]);
  expect(chain([edge("job:b", "host:h3", null, false)], "host:h3", "b")).toEqual([]); // contradicted
});
