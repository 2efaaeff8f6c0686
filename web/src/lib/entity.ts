// Entities by their id: `rank:bert-7/13`, `swport:leaf3/Ethernet12`, `link:h3/eth0~leaf1/Ethernet3`.

export interface Entity {
  readonly kind: string;
  readonly name: string;
}

/** The two parts of an id; without a colon, a name of no kind. */
export function entityOf(id: string): Entity {
  const at = id.indexOf(":");
  return at < 0 ? { kind: "", name: id } : { kind: id.slice(0, at), name: id.slice(at + 1) };
}

/** The job that an entity belongs to, by its id; empty if none. */
export function jobOf(id: string): string {
  const { kind, name } = entityOf(id);
  if (kind === "job") return name;
  return kind === "rank" || kind === "comm"
    ? (name
        .split(">")[0]
        ?.replace(/^rank:/, "")
        .split("/")[0] ?? "")
    : "";
}

// Kinds with a page of their own; jobs and ranks have the job's, and the rest only a place in the graph.
const OWN_PAGE = new Set(
  "host gpu port switch swport link storage xcvr nvlink process pod service".split(" "),
);

/** Where a click on an entity leads. */
export function hrefOf(id: string): string {
  const { kind, name } = entityOf(id);
  const quoted = encodeURIComponent(id);
  switch (kind) {
    case "job":
      return `/jobs/${encodeURIComponent(name)}`;
    case "rank": {
      const rank = name.split("/")[1]?.split(">")[0] ?? "";
      return `/jobs/${encodeURIComponent(jobOf(id))}?rank=${encodeURIComponent(rank)}`;
    }
    case "incident":
      return `/incidents/${encodeURIComponent(name)}`;
    default:
      return OWN_PAGE.has(kind) ? `/entity?of=${quoted}` : `/graph?at=${quoted}`;
  }
}

/** What a drawing has room for: `rank 13`, `GPU-be1914a2`, `h3/eth0 to leaf1`, else the name. */
export function shortName(id: string): string {
  const { kind, name } = entityOf(id);
  if (kind === "rank") return `rank ${name.slice(name.lastIndexOf("/") + 1)}`;
  if (kind === "gpu") return name.slice(0, 12); // as people shorten a UUID
  const [near, far] = name.split("~");
  return kind === "link" && far ? `${near} to ${far.split("/")[0]}` : name;
}

/** `job:bert-7` as the command line names it. */
export function plainName(id: string): string {
  return entityOf(id).name;
}
