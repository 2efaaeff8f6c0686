// The query box: `job:bert-7 rank:13 at:14:02`. Its text is what the URL says, and what is typed becomes a URL.

import { hrefOf } from "./entity";
import { dateOf, momentOf, S } from "./time";

/** What the box knows how to read, with an example of each; shown while it is empty. */
export const WORDS: readonly { readonly word: string; readonly example: string; readonly means: string }[] = [
  { word: "job", example: "job:bert-7", means: "a job" },
  { word: "rank", example: "rank:13", means: "a rank of that job" },
  { word: "host", example: "host:n12", means: "a host, also its address or tag" },
  { word: "incident", example: "incident:…", means: "an incident" },
  { word: "at", example: "at:14:02", means: "five minutes around a moment, UTC" },
  { word: "last", example: "last:15m", means: "a span until now" },
];

const AROUND_S = 150;

export interface Query {
  readonly path: string;
  readonly params: Record<string, string>;
}

/** The URL that a query asks for, or what is wrong with it. `nowNs` gives `at:14:02` its day. */
export function read(text: string, nowNs: number): Query | { readonly problem: string } {
  const params: Record<string, string> = {};
  const named: Record<string, string> = {};
  const free: string[] = [];
  for (const token of text.trim().split(/\s+/).filter(Boolean)) {
    const at = token.indexOf(":");
    const [word, value] = at > 0 ? [token.slice(0, at), token.slice(at + 1)] : ["", token];
    if (word === "at") {
      const moment = momentOf(value, nowNs);
      if (moment === null)
        return { problem: `at: expected 14:02, 14:02:05 or 2026-11-20T14:02, got '${value}'` };
      params.from = dateOf(moment - AROUND_S * S).toISOString();
      params.to = dateOf(moment + AROUND_S * S).toISOString();
    } else if (word === "last") {
      if (!/^[1-9]\d*[smhd]$/.test(value)) return { problem: `last: expected 15m, 6h or 7d, got '${value}'` };
      params.last = value;
    } else if (word) {
      if (!value) return { problem: `${word}: expected a name after the colon` };
      named[word] = value;
    } else free.push(token);
  }
  return { ...placed(named, free.join(" ")), params: { ...placed(named, free.join(" ")).params, ...params } };
}

function placed(named: Record<string, string>, free: string): Query {
  const { job, rank, incident } = named;
  if (incident) return { path: `/incidents/${encodeURIComponent(incident)}`, params: {} };
  if (rank?.includes("/") && !job) {
    const [ofJob, number] = rank.split("/");
    return { path: `/jobs/${encodeURIComponent(ofJob ?? "")}`, params: { rank: number ?? "" } };
  }
  if (job) return { path: `/jobs/${encodeURIComponent(job)}`, params: rank ? { rank } : {} };
  const other = Object.entries(named).find(([word]) => word !== "rank");
  if (other) {
    const [path, search] = hrefOf(`${other[0]}:${other[1]}`).split("?");
    return { path: path ?? "/fleet", params: Object.fromEntries(new URLSearchParams(search)) };
  }
  return { path: "/fleet", params: free ? { find: free } : {} };
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

/** Of `known` names those that the last word of `text` may become, best first: by prefix, then by part. */
export function completions(text: string, known: readonly string[], most = 8): string[] {
  const word = text.split(/\s+/).pop() ?? "";
  if (!word) return [];
  const sought = word.toLowerCase();
  const by = (name: string): number => {
    const whole = name.toLowerCase();
    const bare = whole.slice(whole.indexOf(":") + 1);
    return whole.startsWith(sought) || bare.startsWith(sought) ? 0 : whole.includes(sought) ? 1 : 2;
  };
  return known
    .map((name) => [by(name), name] as const)
    .filter(([rank]) => rank < 2)
    .sort(([a, x], [b, y]) => a - b || x.localeCompare(y, "en", { numeric: true }))
    .slice(0, most)
    .map(([, name]) => name);
}
