// The board of hosts by their probe delay: classes against the threshold, groups, filters, words of one host.

import type { components } from "../../api/schema";
import { duration, percent, probability } from "../../lib/units";
import { BAD, GOOD, isAddress, nicWords, tagName, UNKNOWN, WATCH, type Way } from "../fleet/fleet";
import type { Group } from "../fleet/layout";

export type Board = components["schemas"]["BoardAnswer"];
export type SlowFlow = components["schemas"]["SlowFlow"];

const LEAST_NS = 5000; // where nothing waits a median is 1 us above the smallest delay
const LEAST_LOST = 0.01;

/** From here on a host is slow: what was asked for, else 5 us, or 1 % of probes lost. */
export function thresholdOf(unit: string, asked: number): number {
  if (asked > 0) return asked;
  return unit === "ratio" ? LEAST_LOST : LEAST_NS;
}

/** In which unit a threshold is typed, and how many of it one of the API's are. */
export function typedIn(unit: string): readonly [string, number] {
  return unit === "ratio" ? ["%", 100] : ["µs", 1e-3];
}

/** A value with its unit. */
export function worded(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "unknown";
  return unit === "ratio" ? percent(value) : duration(value / 1e9);
}

export const stateOf = (board: Board, host: number): string =>
  board.states[board.state[host] ?? -1] ?? "unprobed";

/** The class of each host, as on the fleet's board: dark is bad, what was not probed unknown, watched from half. */
export function classesOf(board: Board, way: Way, threshold: number): Uint8Array {
  return Uint8Array.from(board.hosts, (_, host) => {
    const value = board[way][host];
    if (stateOf(board, host) === "dark") return BAD;
    if (value === null || value === undefined) return UNKNOWN;
    return value >= threshold ? BAD : value >= threshold / 2 ? WATCH : GOOD;
  });
}

/** Hosts of one job; undefined: of the whole fleet. */
export function hostsOf(board: Board, job: string): Set<number> | undefined {
  if (!job) return undefined;
  const places = new Set(board.jobs.flatMap((one, place) => (one.job === job ? [place] : [])));
  return new Set(
    board.hosts.flatMap((_, host) => (board.jobs_of[host]?.some((one) => places.has(one)) ? [host] : [])),
  );
}

/** Groups with only some of their hosts; empty ones are left out. */
export function only(groups: readonly Group[], hosts: ReadonlySet<number> | undefined): Group[] {
  if (!hosts) return [...groups];
  return groups
    .map((group) => ({
      name: group.name,
      inner: group.inner
        .map((one) => ({ name: one.name, hosts: one.hosts.filter((host) => hosts.has(host)) }))
        .filter((one) => one.hosts.length),
    }))
    .filter((group) => group.inner.length);
}

/** Which hosts fit a text: all of its words, each in a name, tag, job, state or address; undefined: everything does. */
export function matching(board: Board, text: string): Uint8Array | undefined {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return undefined;
  const addressed = new Set(board.at_address ?? []);
  return Uint8Array.from(board.hosts, (name, host) => {
    const texts = [
      name,
      stateOf(board, host),
      ...tagsOf(board, host).map(([, value]) => value),
      ...jobsOf(board, host),
    ];
    return Number(
      words.every(
        (word) =>
          texts.some((one) => one.toLowerCase().includes(word)) || (isAddress(word) && addressed.has(host)),
      ),
    );
  });
}

/** What a site says of a host: `[rack, r7]`. */
export function tagsOf(board: Board, host: number): [string, string][] {
  return board.tags.flatMap((tag): [string, string][] => {
    const value = tag.values[tag.of[host] ?? -1];
    return value === undefined ? [] : [[tagName(tag.name), value]];
  });
}

/** Jobs that run on a host. */
export function jobsOf(board: Board, host: number): string[] {
  return (board.jobs_of[host] ?? []).flatMap((place) => {
    const job = board.jobs[place];
    return job?.running ? [job.job] : [];
  });
}

/** Hosts that share a machine with this one, and how likely; or why that is unknown. */
export function machineOf(board: Board, host: number): string {
  const one = board.machines.find((machine) => machine.hosts.includes(host));
  const unknown = board.machines_unknown.find((some) => some.hosts.includes(host));
  if (!one) return unknown ? `whether it shares a machine is unknown: ${unknown.why}` : "";
  const others = one.hosts.filter((other) => other !== host).map((other) => board.hosts[other] ?? "");
  return `on one machine with ${others.join(", ")} (p ${probability(one.probability)})`;
}

/** Of one way of a host: its value, how well it is known, over how many peers. */
export function wayWords(board: Board, host: number, way: Way): string {
  const value = board[way][host];
  const peers = board[`${way}_peers`][host] ?? 0;
  if (!peers) return `${way}: not probed`;
  const silent = board[`${way}_silent`][host] ?? 0;
  const bound = board[`${way}_bound_ns`][host] ?? null;
  const within =
    board.unit === "ratio" || value === null
      ? ""
      : bound === null
        ? ", bound unknown"
        : ` ± ${duration(bound / 1e9)}`;
  const over = `${peers} ${peers === 1 ? "peer" : "peers"}${silent ? `, nothing with ${silent}` : ""}`;
  return `${way}: ${worded(value, board.unit)}${within}, ${over}`;
}

/** All that is told of a tile, line by line. */
export function described(board: Board, host: number): string[] {
  const jobs = jobsOf(board, host);
  const state = stateOf(board, host);
  const tags = tagsOf(board, host).map(([name, value]) => `${name} ${value}`);
  return [
    board.hosts[host] ?? "",
    jobs.length ? jobs.join(", ") : "no job",
    state === "dark" ? `dark: ${board.words[host] ?? ""}` : state === "unprobed" ? "not probed" : "probed",
    wayWords(board, host, "inbound"),
    wayWords(board, host, "outbound"),
    ...[machineOf(board, host)].filter(Boolean),
    [
      nicWords(board.nics_healthy[host] ?? 0, board.nics_total[host] ?? 0, board.nics_unknown[host] ?? 0),
      ...tags,
    ].join(" · "),
  ];
}

export interface Figures {
  readonly healthy: number; // heard, and not slow
  readonly probed: number; // of so many that are probed, the dark ones too
  readonly dark: number;
  readonly slow: number;
  readonly hosts: number;
  readonly slowest: number; // a host; -1: none is known
  readonly nics: { readonly healthy: number; readonly known: number; readonly total: number };
}

/** What the board says in numbers, of some hosts. */
export function figuresOf(
  board: Board,
  way: Way,
  threshold: number,
  hosts: ReadonlySet<number> | undefined,
): Figures {
  let [healthy, probed, dark, slow, slowest, count] = [0, 0, 0, 0, -1, 0];
  const nics = { healthy: 0, known: 0, total: 0 };
  board.hosts.forEach((_, host) => {
    if (hosts && !hosts.has(host)) return;
    count += 1;
    nics.total += board.nics_total[host] ?? 0;
    nics.healthy += board.nics_healthy[host] ?? 0;
    nics.known += (board.nics_total[host] ?? 0) - (board.nics_unknown[host] ?? 0);
    const state = stateOf(board, host);
    if (state === "unprobed") return;
    probed += 1;
    const value = board[way][host];
    if (state === "dark") dark += 1;
    else if (value !== null && value !== undefined && value >= threshold) slow += 1;
    else if (value !== null && value !== undefined) healthy += 1;
    if (value !== null && value !== undefined && value > (board[way][slowest] ?? -1)) slowest = host;
  });
  return { healthy, probed, dark, slow, hosts: count, slowest, nics };
}

const PROTOCOLS: Readonly<Record<number, string>> = { 6: "tcp", 17: "udp" };

/** The queue pair or socket of a flow; why it is not told. */
export function flowWords(flow: SlowFlow): string {
  if (flow.src_ip === null || flow.dst_ip === null)
    return flow.flow !== null
      ? `flow ${flow.flow.slice(0, 8)}`
      : flow.flows
        ? `one of ${flow.flows} flows`
        : "not known";
  if (flow.dst_qp !== null)
    return `${flow.src_ip}:${flow.src_port} to ${flow.dst_ip} queue pair ${flow.dst_qp}`;
  const protocol = PROTOCOLS[flow.protocol ?? -1] ?? `ip/${flow.protocol}`;
  return `${protocol} ${flow.src_ip}:${flow.src_port} to ${flow.dst_ip}:${flow.dst_port}`;
}
