// The query box: `job:bert-7 rank:13 at:14:02`, or any words, which are searched for. Its text is what the URL says, and
// what is typed becomes a URL.

import type { Answer } from "./api";
import { entityOf, hrefOf } from "./entity";
import { FORMS, momentOf } from "./moment";
import { lastOf } from "./span";
import { dateOf, S } from "./time";

/** What the box knows how to read, with an example of each; shown while it is empty. */
export const WORDS: readonly { readonly word: string; readonly example: string; readonly means: string }[] = [
  { word: "", example: "thrott", means: "whatever has this in its name: hosts, metrics, incidents, …" },
  { word: "job", example: "job:bert-7", means: "a job" },
  { word: "rank", example: "rank:13", means: "a rank of that job" },
  { word: "incident", example: "incident:…", means: "an incident" },
  { word: "at", example: "at:14:02", means: "five minutes around a moment, UTC" },
  { word: "last", example: "last:15m", means: "a span until now" },
];

const AROUND_S = 150;
// Kinds that may stand before a name; `02:ab:cd` is no kind and a name, but a MAC address.
const KINDS = new Set(
  "job rank incident host gpu port switch swport link address storage service process pod xcvr nvlink comm flow qp".split(
    " ",
  ),
);

export type Hit = Answer<"/api/v1/search">["hits"][number];

/** Where the reader is, as far as a query may stay there. */
export interface Here {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
}

/** What a query asks for: a place, where its words say one; the words to search for, where they do not; and the span of
 *  either. `here`: where it stays if it has no words but of time. */
export interface Query {
  readonly place: Here | null;
  readonly words: string;
  readonly span: Readonly<Record<string, string>>;
}

/** What a text asks for, or what is wrong with it. `nowNs` gives `at:14:02` its day. */
export function read(text: string, nowNs: number, here: Here): Query | { readonly problem: string } {
  let span: Record<string, string> = {};
  const named: Record<string, string> = {};
  const words: string[] = [];
  for (const token of text.trim().split(/\s+/).filter(Boolean)) {
    const at = token.indexOf(":");
    const [word, value] = at > 0 ? [token.slice(0, at), token.slice(at + 1)] : ["", token];
    if (word === "at" || word === "last") {
      const found = spanOf(word, value, nowNs);
      if ("problem" in found) return { problem: found.problem ?? "" };
      span = found;
      continue;
    }
    words.push(token);
    if (!KINDS.has(word)) continue;
    if (!value) return { problem: `${word}: expected a name after the colon` };
    named[word] = value;
  }
  if (!words.length) return { place: here, words: "", span };
  const place = Object.keys(named).length === words.length ? placed(named, here) : null;
  const plain = words.map((word) => (place || words.length === 1 ? word : withoutKind(word)));
  return { place, words: plain.join(" "), span };
}

/** `h3` of `host:h3`: amid other words the kind says nothing of what they are part of. */
function withoutKind(token: string): string {
  const { kind, name } = entityOf(token);
  return KINDS.has(kind) ? name : token;
}

function spanOf(word: string, value: string, nowNs: number): Record<string, string> {
  if (word === "last")
    return lastOf(value) === null
      ? { problem: `last: expected 15m, 6h or 7d, up to 366 d, got '${value}'` }
      : { last: value };
  const moment = momentOf(value, { nowNs });
  if (moment === null) return { problem: `at: expected ${FORMS}, got '${value}'` };
  const [from, to] = [moment - AROUND_S * S, moment + AROUND_S * S].map((ns) => dateOf(ns).toISOString());
  return { from: from ?? "", to: to ?? "" };
}

/** The place that names with a kind before them say; null if they say none. */
function placed(named: Readonly<Record<string, string>>, here: Here): Here | null {
  const { job, rank, incident } = named;
  if (incident) return { path: `/incidents/${encodeURIComponent(incident)}`, params: {} };
  if (rank?.includes("/") && !job) return hereOf(hrefOf(`rank:${rank}`));
  if (job) return { path: `/jobs/${encodeURIComponent(job)}`, params: rank ? { rank } : {} };
  if (rank)
    return /^\/jobs\/./.test(here.path) ? { path: here.path, params: { ...here.params, rank } } : null;
  const [other] = Object.entries(named);
  return other ? hereOf(hrefOf(`${other[0]}:${other[1]}`)) : null;
}

/** A path of the page in its parts. */
export function hereOf(href: string): Here {
  const [path, search] = href.split("?");
  return { path: path ?? "/", params: Object.fromEntries(new URLSearchParams(search)) };
}

/** The path of a place with a span. */
export function hrefWith(place: Here, span: Readonly<Record<string, string>>): string {
  const params = Object.keys(span).length ? { ...withoutSpan(place.params), ...span } : place.params;
  const search = new URLSearchParams(params).toString();
  return search ? `${place.path}?${search}` : place.path;
}

/** Parameters of a view without those of the page's span. */
export function withoutSpan(params: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).filter(([name]) => !["last", "from", "to"].includes(name)),
  );
}

/** What the box shows for a place, so that it can be edited. */
export function written(path: string, params: URLSearchParams): string {
  const parts = path.split("/").map(decodeURIComponent);
  const words: string[] = [];
  if (parts[1] === "jobs" && parts[2]) words.push(`job:${parts[2]}`);
  if (parts[1] === "incidents" && parts[2]) words.push(`incident:${parts[2]}`);
  const of = parts[1] === "entity" ? params.get("of") : null;
  if (of) words.push(of);
  const rank = params.get("rank");
  if (rank) words.push(`rank:${rank}`);
  const at = params.get("at");
  if (at) words.push(at);
  const find = params.get("find");
  if (find) words.push(find);
  return words.join(" ");
}

const KIND_WORDS: Readonly<Record<string, string>> = {
  job: "Jobs",
  gpu: "GPUs",
  port: "NIC ports",
  switch: "Switches",
  swport: "Switch ports",
  address: "Addresses",
  storage: "Storage",
  metric: "Metrics",
  rule: "Rules of causes",
  xcvr: "Transceivers",
  process: "Processes",
  nvlink: "NVLinks",
  comm: "Communicators",
};

export interface Group {
  readonly kind: string;
  readonly title: string;
  readonly more: number; // that fit, and are not shown
  readonly hits: readonly Hit[];
}

/** Hits by kind, the kind with the best hit first. */
export function grouped(hits: readonly Hit[], totals: Readonly<Record<string, number>>): Group[] {
  return [...new Set(hits.map((hit) => hit.kind))].map((kind) => {
    const own = hits.filter((hit) => hit.kind === kind);
    const title = KIND_WORDS[kind] ?? `${kind.charAt(0).toUpperCase()}${kind.slice(1)}s`;
    return { kind, title, more: Math.max(0, (totals[kind] ?? 0) - own.length), hits: own };
  });
}
