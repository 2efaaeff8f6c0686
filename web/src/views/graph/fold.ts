// The picture of a graph's answer: rows from job to storage, what would crowd a row folded by where it belongs.
//
//     nodes, edges ──> homes (host or switch of each, leaves of each host) ──> rows ──> boxes ──> lines between boxes
//
// Folding goes from the nearest to the widest: parts by host, hosts by their leaves, a whole row. What is bad, and what the
// reader has chosen, is never hidden in a box.

import type { components } from "../../api/schema";
import { entityOf } from "../../lib/entity";
import { type State, stateOf, worst } from "../../lib/state";

export type Graph = components["schemas"]["GraphAnswer"];
export type Node = Graph["nodes"][number];
export type Edge = Graph["edges"][number];

export const ROW_MAX = 16; // boxes of a kind side by side; with more their names cannot be read
const BY_HOME = new Set(["gpu", "process", "port", "swport", "nvlink"]);
const APART_MAX = 4; // bad ones of a kind that are shown beside their group; more are a state of the group

export interface Box {
  readonly id: string; // of one node its entity; of a group `LAYER/KIND@WHERE`
  readonly kind: string;
  readonly layer: number;
  readonly label: string;
  readonly lines: readonly string[]; // the same for a box: what and how many, where
  readonly members: readonly Node[];
  readonly group: boolean;
  readonly state: State;
  readonly why: string;
  readonly shared: boolean;
}

/** One or more edges between two boxes; `child` stands on `parent`. */
export interface Line {
  readonly child: string;
  readonly parent: string;
  readonly edges: readonly Edge[];
  readonly state: State;
  readonly bytes: number | null; // of all its links; null: not known of any
  readonly shared: boolean;
}

export interface Picture {
  readonly boxes: readonly Box[]; // by layer, kind, name
  readonly lines: readonly Line[];
  readonly boxOf: ReadonlyMap<string, string>; // entity: id of its box
}

/** The boxes and lines that show an answer. `open`: groups shown by their members; `keep`: an entity never folded. */
export function pictured(graph: Graph, open: ReadonlySet<string>, keep = "", most = ROW_MAX): Picture {
  const shared = new Set(graph.shared.map((each) => each.entity));
  const levels = levelsOf(graph);
  const boxes: Box[] = [];
  for (const [, nodes] of byRow(graph.nodes)) {
    const bad = nodes.filter((node) => stateOf(node.state) === "bad");
    const apart = new Set(bad.length <= APART_MAX ? bad : []);
    for (const node of nodes) if (node.entity === keep) apart.add(node);
    for (const found of folded(nodes, apart, levels, open, most)) boxes.push(boxOf(found, shared));
  }
  // Parts of hosts stand in the order of these, whatever their own names, folded or not.
  const home = (box: Box): string =>
    BY_HOME.has(box.kind) ? (levels[0]?.(box.members[0]?.entity ?? "") ?? "") : "";
  boxes.sort(
    (a, b) =>
      a.layer - b.layer ||
      a.kind.localeCompare(b.kind) ||
      natural(home(a), home(b)) ||
      natural(a.label, b.label),
  );
  const at = new Map(boxes.flatMap((box) => box.members.map((node) => [node.entity, box.id] as const)));
  return { boxes, lines: linesOf(graph.edges, at, boxes, shared), boxOf: at };
}

interface Found {
  readonly id: string;
  readonly where: string;
  readonly nodes: readonly Node[];
}

type Level = (entity: string) => string;

function folded(
  nodes: readonly Node[],
  apart: ReadonlySet<Node>,
  levels: readonly Level[],
  open: ReadonlySet<string>,
  most: number,
): Found[] {
  const single = (node: Node): Found => ({ id: node.entity, where: "", nodes: [node] });
  if (nodes.length <= most) return nodes.map(single);
  const rest = nodes.filter((node) => !apart.has(node));
  const alone = nodes.filter((node) => apart.has(node)).map(single);
  for (const [at, level] of levels.entries()) {
    const groups = grouped(rest, (node) => level(node.entity));
    if (groups.size > most && at + 1 < levels.length) continue;
    if (groups.size === rest.length) continue;
    return [
      ...alone,
      ...[...groups].flatMap(([where, members]) => {
        const id = `${members[0]?.layer ?? 0}/${members[0]?.kind ?? ""}@${where}`;
        if (members.length === 1) return members.map(single);
        return open.has(id)
          ? folded(members, apart, levels.slice(0, at), open, most)
          : [{ id, where, nodes: members }];
      }),
    ];
  }
  return nodes.map(single);
}

function byRow(nodes: readonly Node[]): Map<string, Node[]> {
  return grouped(nodes, (node) => `${node.layer} ${node.kind}`);
}

/** From near to wide: the host or switch that something belongs to, the leaves of that host, one for all. */
function levelsOf(graph: Graph): Level[] {
  const homes = homesOf(graph);
  const leaves = new Map<string, Set<string>>();
  for (const edge of graph.edges) {
    if (!edge.link || !edge.used) continue;
    const [host, leaf] = [homeOf(edge.child, homes), homeOf(edge.parent, homes)];
    if (!host.startsWith("host:") || leaf.startsWith("host:")) continue;
    const known = leaves.get(host) ?? new Set<string>();
    leaves.set(host, known.add(plain(leaf)));
  }
  const near: Level = (entity) => homeOf(entity, homes);
  const told = new Map([...leaves].map(([host, found]) => [host, leafWords([...found].sort(natural))]));
  const wide: Level = (entity) => told.get(homeOf(entity, homes)) ?? "";
  return [near, wide, () => ""];
}

/** `leaf1+leaf2`, `leaf1-1…leaf1-8`: leaves in order; with many, how many there are keeps them apart. */
function leafWords(leaves: readonly string[]): string {
  const [first = "", last = ""] = [leaves[0], leaves.at(-1)];
  return leaves.length > 3 ? `${first}…${last} (${leaves.length})` : leaves.join("+");
}

/** The host of each rank, GPU, process by the edges that tell it. */
function homesOf(graph: Graph): Map<string, string> {
  const homes = new Map<string, string>();
  for (const { child, parent, used } of graph.edges) {
    if (!used) continue;
    if (parent.startsWith("host:") && !child.startsWith("job:")) homes.set(child, parent);
    else if (child.startsWith("host:")) homes.set(parent, child);
  }
  return homes;
}

/** Host or switch of an entity; itself where it has none. The names of ports say theirs. */
function homeOf(entity: string, homes: ReadonlyMap<string, string>): string {
  const { kind, name } = entityOf(entity);
  if (kind === "swport") return `switch:${name.split("/")[0]}`;
  if (kind === "port" || kind === "process") return homes.get(entity) ?? `host:${name.split("/")[0]}`;
  return homes.get(entity) ?? entity;
}

function boxOf(found: Found, shared: ReadonlySet<string>): Box {
  const [first] = found.nodes;
  const states = found.nodes.map((node) => stateOf(node.state));
  const state = worst(states);
  const group = found.id !== first?.entity;
  const reason = found.nodes.find((node) => stateOf(node.state) === state && node.why)?.why ?? "";
  const [many, count] = [found.nodes.length, states.filter((each) => each === state).length];
  const lines = group ? groupLines(first?.kind ?? "", many, found.where) : [labelOf(first?.entity ?? "")];
  return {
    id: found.id,
    kind: first?.kind ?? "",
    layer: first?.layer ?? 0,
    label: lines.join(" "),
    lines,
    members: found.nodes,
    group,
    state,
    why: group && state !== "good" ? `${count} of ${many} ${state}${reason ? `: ${reason}` : ""}` : reason,
    shared: found.nodes.some((node) => shared.has(node.entity)),
  };
}

function linesOf(
  edges: readonly Edge[],
  at: ReadonlyMap<string, string>,
  boxes: readonly Box[],
  shared: ReadonlySet<string>,
): Line[] {
  const found = new Map<string, Edge[]>();
  for (const edge of edges) {
    const [child, parent] = [at.get(edge.child), at.get(edge.parent)];
    if (!child || !parent || child === parent) continue;
    const key = `${child}\n${parent}`;
    const known = found.get(key);
    if (known) known.push(edge);
    else found.set(key, [edge]);
  }
  const lines = [...found].map(([key, own]) => {
    const [child = "", parent = ""] = key.split("\n");
    const carried = own.flatMap((edge) => (edge.bytes === null ? [] : [edge.bytes]));
    const links = own.filter((edge) => edge.link);
    return {
      child,
      parent,
      edges: own,
      state: links.length ? worst(links.map((edge) => stateOf(edge.state))) : ("good" as const),
      bytes: carried.length ? carried.reduce((sum, one) => sum + one, 0) : null,
      shared: own.some((edge) => edge.link !== null && shared.has(edge.link)),
    };
  });
  return reduced(lines, boxes);
}

/** Without lines that skip a row which a longer way passes: a rank stands on its host by its GPU. */
function reduced(lines: readonly Line[], boxes: readonly Box[]): Line[] {
  const layer = new Map(boxes.map((box) => [box.id, box.layer]));
  const below = grouped(lines, (line) => line.child);
  const direct = new Set(lines.map((line) => `${line.child}\n${line.parent}`));
  return lines.filter((line) => {
    if ((layer.get(line.parent) ?? 0) - (layer.get(line.child) ?? 0) < 2) return true;
    return !below
      .get(line.child)
      ?.some((step) => step.parent !== line.parent && direct.has(`${step.parent}\n${line.parent}`));
  });
}

/** All boxes that a box stands on, by any number of lines, itself among them. */
export function standsOn(picture: Picture, box: string): Set<string> {
  return reached(picture, box, (line) => [line.child, line.parent]);
}

/** All boxes that stand on a box, itself among them. */
export function carried(picture: Picture, box: string): Set<string> {
  return reached(picture, box, (line) => [line.parent, line.child]);
}

function reached(picture: Picture, box: string, way: (line: Line) => [string, string]): Set<string> {
  const next = new Map<string, string[]>();
  for (const line of picture.lines) {
    const [from, to] = way(line);
    const known = next.get(from);
    if (known) known.push(to);
    else next.set(from, [to]);
  }
  const found = new Set([box]);
  for (const one of found) for (const other of next.get(one) ?? []) found.add(other);
  return found;
}

const MANY: Readonly<Record<string, string>> = {
  job: "jobs",
  comm: "communicators",
  rank: "ranks",
  gpu: "GPUs",
  process: "processes",
  pod: "pods",
  host: "hosts",
  port: "NIC ports",
  nvlink: "NVLinks",
  storage: "storage",
  swport: "switch ports",
  switch: "switches",
  xcvr: "optics",
  qp: "queue pairs",
  flow: "flows",
  link: "links",
  address: "addresses",
};

const ONE: Readonly<Record<string, string>> = {
  gpu: "GPU",
  port: "NIC port",
  swport: "switch port",
  comm: "communicator",
};

/** `NIC ports`: a kind in the plural. */
export function manyOf(kind: string): string {
  return MANY[kind] ?? `${kind || "other"}s`;
}

/** The name of an entity in a box: `rank 3`, `GPU-61eb79e9`, `h3/eth0`. */
export function labelOf(entity: string): string {
  const { kind, name } = entityOf(entity);
  if (kind === "rank") return `rank ${name.slice(name.lastIndexOf("/") + 1)}`;
  if (kind === "gpu") return name.split("-").slice(0, 2).join("-");
  if (kind === "process") return `pid ${name.slice(name.lastIndexOf("/") + 1)}`;
  if (kind === "comm") return `comm ${name.slice(name.lastIndexOf("/") + 1).slice(0, 8)}`;
  return name;
}

function groupLines(kind: string, count: number, where: string): string[] {
  const place = plain(where);
  return [`${count} ${manyOf(kind)}`, ...(place ? [`${where.includes(":") ? "of" : "at"} ${place}`] : [])];
}

/** `NIC ports of h2`: a group by its id. */
export function groupName(id: string): string {
  const at = id.indexOf("@");
  const where = id.slice(at + 1);
  return `${manyOf(id.slice(id.indexOf("/") + 1, at))}${where ? ` of ${plain(where)}` : ""}`;
}

function plain(entity: string): string {
  return entity.includes(":") ? entityOf(entity).name : entity;
}

function grouped<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const item of items) {
    const name = key(item);
    const own = found.get(name);
    if (own) own.push(item);
    else found.set(name, [item]);
  }
  return found;
}

const ORDER = new Intl.Collator("en", { numeric: true });

/** h2 before h10. */
export function natural(a: string, b: string): number {
  return ORDER.compare(a, b);
}

/** `8 hosts`, `1 job`: a row by what is in it. */
export function rowTitle(kinds: readonly string[], count: number): string {
  const [kind = "", ...more] = new Set(kinds);
  if (count === 1 && !more.length) return `1 ${ONE[kind] ?? kind}`;
  return `${count} ${[kind, ...more].map(manyOf).join(", ")}`;
}
