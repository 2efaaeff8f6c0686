// Paths as people read them: ranks and what they run on, the stops and links of a flow's way, who fills which link.

import type { components } from "../../api/schema";
import { entityOf } from "../../lib/entity";
import type { State } from "../../lib/state";
import { bitRate, probability } from "../../lib/units";

export type Flows = components["schemas"]["FlowsAnswer"];
export type Path = components["schemas"]["PathAnswer"];
export type PathFlow = components["schemas"]["PathFlow"];
export type Flow = Omit<PathFlow, "paths">;
export type Hop = components["schemas"]["PathHop"];
export type Load = components["schemas"]["LinkLoad"];
export type Group = components["schemas"]["EcmpGroup"];
type Graph = components["schemas"]["GraphAnswer"];

export const NOBODY = "(nobody)";

/** A rank that may be picked: `bert-1/3` on `GPU-5f0b045b` of `h4`; what no source tells is empty. */
export interface Rank {
  readonly name: string;
  readonly number: number;
  readonly gpu: string;
  readonly host: string;
}

export function ranksOf(graph: Pick<Graph, "nodes" | "edges">): Rank[] {
  const under = new Map<string, string[]>();
  for (const { child, parent, used } of graph.edges)
    if (used) under.set(child, [...(under.get(child) ?? []), parent]);
  const first = (of: string, kind: string): string =>
    under
      .get(of)
      ?.find((one) => one.startsWith(`${kind}:`))
      ?.slice(kind.length + 1) ?? "";
  return graph.nodes
    .filter((node) => node.kind === "rank")
    .map(({ entity }) => {
      const name = entityOf(entity).name;
      const gpu = first(entity, "gpu");
      const host = first(entity, "host") || (gpu ? first(`gpu:${gpu}`, "host") : "");
      return { name, number: Number(name.slice(name.lastIndexOf("/") + 1)), gpu, host };
    })
    .sort((a, b) => a.number - b.number);
}

/** `13: h4, GPU-5f0b045b`. */
export function rankText(rank: Rank): string {
  const gpu = rank.gpu.split("-").slice(0, 2).join("-");
  const where = [rank.host, gpu].filter(Boolean).join(", ");
  return where ? `${rank.number}: ${where}` : String(rank.number);
}

/** `bert-1/3` of `3`, `bert-1/3` or `rank:bert-1/3`; empty of anything else. */
export function rankOf(job: string, text: string): string {
  if (/^\d+$/.test(text)) return job ? `${job}/${text}` : "";
  const name = text.replace(/^rank:/, "");
  return /\/\d+$/.test(name) ? name : "";
}

/** The number in `rank:bert-1/3`. */
export function numberOf(rank: string | null): string {
  return rank?.slice(rank.lastIndexOf("/") + 1) ?? "";
}

/** The two ranks that say most to each other; empty where no flow has both. */
export function busiestPair(flows: readonly Flow[]): [string, string] | null {
  const sums = new Map<string, number>();
  for (const flow of flows) {
    if (!flow.src_rank || !flow.dst_rank || flow.src_rank === flow.dst_rank) continue;
    const key = [flow.src_rank, flow.dst_rank].sort().join(" ");
    sums.set(key, (sums.get(key) ?? 0) + flow.bytes);
  }
  const [most] = [...sums].sort(([, a], [, b]) => b - a);
  const [a, b] = (most?.[0] ?? "").split(" ");
  return a && b ? [a.replace("rank:", ""), b.replace("rank:", "")] : null;
}

/** The two ends of a link by node and port: `link:h3/eth0~leaf1/Ethernet3`. */
export function endsOf(link: string): [string, string] {
  const [a = "", b = ""] = entityOf(link).name.split("~");
  return [a, b];
}

export function nodeOf(port: string): string {
  return port.split("/")[0] ?? "";
}

export function portOf(port: string): string {
  return port.slice(port.indexOf("/") + 1);
}

/** One link of a way, in the direction that it is crossed. */
export interface Stop<H extends { readonly link: string }> {
  readonly hop: H;
  readonly from: string; // `h3/eth0`
  readonly to: string;
}

/** The links of a way, each from the node before to the next. `src`: the NIC port where it begins, if it is known. */
export function stopsOf<H extends { readonly link: string }>(
  hops: readonly H[],
  src: string | null,
): Stop<H>[] {
  let at = src ? nodeOf(entityOf(src).name) : firstNode(hops);
  return hops.map((hop) => {
    const [a, b] = endsOf(hop.link);
    const turned = nodeOf(b) === at && nodeOf(a) !== at;
    const [from, to] = turned ? [b, a] : [a, b];
    at = nodeOf(to);
    return { hop, from, to };
  });
}

/** Where a chain of links begins: at the end of the first that the second does not have. */
function firstNode(hops: readonly { readonly link: string }[]): string {
  const [a = "", b = ""] = endsOf(hops[0]?.link ?? "").map(nodeOf);
  const next = hops[1] ? endsOf(hops[1].link).map(nodeOf) : [];
  return next.includes(a) ? b : a;
}

const STATES: Readonly<Record<string, State>> = {
  known: "good",
  moved: "good",
  sprayed: "good",
  ambiguous: "unknown",
  unknown: "unknown",
  loop: "bad",
  contradicted: "bad",
};

/** Whether the way of a flow is known, as a state. */
export function stateOfFlow(state: string): State {
  return STATES[state] ?? "unknown";
}

/** `RoCEv2 queue pair 17`, `tcp 10.1.1.1:39697 > 10.2.8.1:33074`. */
export function transport(
  flow: Pick<Flow, "dst_qp" | "protocol" | "src_ip" | "dst_ip" | "src_port" | "dst_port">,
): string {
  const ends = `${bracketed(flow.src_ip)}:${flow.src_port} > ${bracketed(flow.dst_ip)}`;
  if (flow.dst_qp !== null) return `RoCEv2 ${ends} queue pair ${flow.dst_qp}`;
  const name = flow.protocol === 6 ? "tcp" : flow.protocol === 17 ? "udp" : `protocol ${flow.protocol}`;
  return `${name} ${ends}:${flow.dst_port}`;
}

function bracketed(ip: string): string {
  return ip.includes(":") ? `[${ip}]` : ip;
}

/** `6.9 Mbit/s (6.3 to 7.4)`: the mean over a window, with its 95 % interval. */
export function rate(
  of: { readonly bytes: number | null; readonly low: number | null; readonly high: number | null },
  seconds: number,
): string {
  if (of.bytes === null || !seconds) return "unknown";
  const mean = bitRate(of.bytes / seconds);
  if (of.low === null || of.high === null) return mean;
  const [low, high] = [bitRate(of.low / seconds), bitRate(of.high / seconds)];
  const unit = mean.split(" ")[1] ?? "";
  const bare = (text: string): string => (text.endsWith(` ${unit}`) ? text.slice(0, -unit.length - 1) : text);
  return `${mean} (${bare(low)} to ${bare(high)})`;
}

/** Who else is on a link, in words: named where they may be, other tenants counted; empty if nobody. */
export function othersOn(load: Load | undefined, job: string, seconds: number): string {
  if (!load) return "";
  const named = Object.entries(load.jobs)
    .filter(([name]) => name !== job)
    .map(([name, carried]) => `${name === NOBODY ? "nobody's" : name} ${bitRate(carried / seconds)}`);
  if (load.others) named.push(`${load.others} ${load.others === 1 ? "job" : "jobs"} of other tenants`);
  return named.join(", ");
}

/** One link of a group as a bar: what the switch sent by it, of this job and of all; shares are of the busiest. */
export interface Bar {
  readonly link: string;
  readonly port: string; // by which the switch sends
  readonly peer: string;
  readonly bytes: number;
  readonly own: number; // share, 0 to 1
  readonly rest: number;
  readonly busiest: boolean;
  readonly jobs: readonly (readonly [string, number])[]; // most first
}

export function barsOf(group: Group, job: string): Bar[] {
  const most = Math.max(...group.sent.map((each) => each.bytes), 0);
  return group.sent
    .map((each) => {
      const [a, b] = endsOf(each.link);
      const [port, peer] = nodeOf(a) === group.switch ? [a, b] : [b, a];
      const own = each.jobs[job] ?? 0;
      return {
        link: each.link,
        port: portOf(port),
        peer: nodeOf(peer),
        bytes: each.bytes,
        own: most ? own / most : 0,
        rest: most ? (each.bytes - own) / most : 0,
        busiest: each.link === group.busiest,
        jobs: Object.entries(each.jobs).sort(([, x], [, y]) => y - x),
      };
    })
    .sort((a, b) => a.port.localeCompare(b.port, "en", { numeric: true }));
}

/** A flow that collides: by its ranks where it is one of the job, else by its id. */
export interface Colliding {
  readonly flow: string;
  readonly text: string;
  readonly pair: readonly [string, string] | null;
}

export function collidingOf(group: Group, flows: readonly Flow[]): Colliding[] {
  const known = new Map(flows.map((flow) => [`flow:${flow.flow}`, flow]));
  return group.colliding.map((id) => {
    const flow = known.get(id);
    if (flow?.src_rank && flow.dst_rank) {
      const pair = [numberOf(flow.src_rank), numberOf(flow.dst_rank)] as const;
      return { flow: id, text: `rank ${pair[0]} > ${pair[1]}`, pair };
    }
    return { flow: id, text: `flow ${entityOf(id).name.slice(0, 8)}`, pair: null };
  });
}

/** `p 0.99`, `p unknown`. */
export function sure(value: number | null): string {
  return `p ${probability(value)}`;
}
