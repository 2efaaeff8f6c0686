// Where the reader is: the URL, and nothing else. Every view, entity, span and filter stands in it, so Back works and a
// link shows the same to somebody else.

import { live } from "./live.svelte";
import { readSpan, spanParams } from "./span";
import { DEFAULT_SPAN, ends, type Span } from "./time";

const SPAN = ["last", "from", "to"]; // of the whole page, as the cluster is: links keep them

class Place {
  #followed: Span = DEFAULT_SPAN;
  #url = $state(new URL(globalThis.location?.href ?? "http://localhost/"));

  constructor() {
    this.#fromHash();
    globalThis.addEventListener?.("popstate", () => (this.#url = new URL(location.href)));
  }

  /** `/#/metrics?name=up`, as links to single pages are often written, is `/explore?name=up`: `/metrics` is the server's. */
  #fromHash(): void {
    if (!this.#url.hash.startsWith("#/")) return;
    const to = this.#url.hash.slice(1).replace(/^\/metrics\b/, "/explore");
    history.replaceState(null, "", to);
    this.#url = new URL(location.href);
  }

  /** The path's parts: `/jobs/bert-7` is `["jobs", "bert-7"]`. */
  get parts(): string[] {
    return this.#url.pathname.split("/").filter(Boolean).map(decoded);
  }

  get path(): string {
    return this.#url.pathname;
  }

  get params(): URLSearchParams {
    return this.#url.searchParams;
  }

  param(name: string): string {
    return this.#url.searchParams.get(name) ?? "";
  }

  /** The time span of the whole page. */
  get span(): Span {
    return this.#read.span;
  }

  /** What the URL says of the span that cannot be understood, so that the default is shown; empty if all can. */
  get spanProblem(): string {
    return this.#read.problem;
  }

  get #read(): ReturnType<typeof readSpan> {
    return readSpan(this.#url.searchParams, () => live.nowNs);
  }

  /** Whether the span moves with the time. */
  get following(): boolean {
    return "lastS" in this.span;
  }

  /** The two ends of the span, at the server's time. */
  get ends(): { fromNs: number; toNs: number } {
    return ends(this.span, live.nowNs);
  }

  /** The span as the API's `from` and `to` take it. While it follows, the newest end is the server's own now. */
  get asked(): { from: string; to: string | undefined } {
    const span = this.span;
    if ("lastS" in span) return { from: `-${span.lastS}s`, to: undefined };
    return { from: String(span.fromNs), to: String(span.toNs) };
  }

  /** A path of this page that keeps span and cluster, as a link's `href`. */
  to(path: string): string {
    const [bare, search] = path.split("?");
    const params = new URLSearchParams(search);
    const kept = SPAN.some((name) => params.has(name)) ? ["cluster"] : [...SPAN, "cluster"];
    for (const name of kept) {
      const value = this.param(name);
      if (value && !params.has(name)) params.set(name, value);
    }
    const query = params.toString();
    return query ? `${bare}?${query}` : (bare ?? "/");
  }

  /** Go there; the span is kept unless the path says another. */
  go(path: string): void {
    history.pushState(null, "", this.to(path));
    this.#url = new URL(location.href);
    scrollTo(0, 0);
  }

  /** Change parameters where one is; an empty value takes one away. `replace` for what changes while one drags. */
  set(changes: Record<string, string>, replace = false): void {
    const url = new URL(this.#url);
    for (const [name, value] of Object.entries(changes)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    if (url.href === this.#url.href) return;
    history[replace ? "replaceState" : "pushState"](null, "", url);
    this.#url = url;
  }

  /** Show another span. */
  show(span: Span): void {
    if (this.following) this.#followed = this.span;
    this.set({ last: "", from: "", to: "", ...spanParams(span) });
  }

  /** Follow the time again, with the span that was shown before it stood still. */
  follow(): void {
    this.show(this.#followed);
  }
}

/** A part of a path; as it stands where its escapes mean nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = new Place();

/** Clicks on links of this page are followed without loading it anew. */
export function followLinks(event: MouseEvent): void {
  if (
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (/^\/(api|docs)(\/|$)/.test(link.pathname) || link.pathname === "/metrics") return;
  event.preventDefault();
  place.go(link.pathname + link.search);
}
