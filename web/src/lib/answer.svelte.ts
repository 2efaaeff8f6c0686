// One answer of the API that a view shows: kept while the next one comes, asked again when its tables get rows.

import { type Answer, ApiError, type GetPath, type ParamsOf, sized } from "./api";
import { live } from "./live.svelte";
import { paceMs } from "./pace";
import { place } from "./place.svelte";

const DIM_AFTER_MS = 500;

export class Asked<A> {
  /** The newest answer; undefined until the first. */
  now = $state.raw<A | undefined>();
  problem = $state.raw<ApiError | undefined>();
  /** Whether the picture is older than what was asked, for more than half a second. */
  dim = $state(false);
  askedAtMs = 0;
  madeAtMs = 0; // when the server began with it
  againMs = 0; // after this it may be asked for again, however fast rows come
}

/** Ask, and ask again when the parameters change or rows come to `tables`. To be called while a component is made.
 *  `params` null: nothing to ask yet. */
export function answer<P extends GetPath>(
  path: P,
  params: () => ParamsOf<P> | null,
  tables: readonly string[],
): Asked<Answer<P>> {
  const asked = new Asked<Answer<P>>();
  let lastKey = "";
  let stop = new AbortController();
  let running = false; // an answer under way is waited for when only rows came: else a slow one would never come
  let again: (() => void) | undefined;
  let newsMs = 0; // when rows came last
  let begin: ReturnType<typeof setTimeout> | undefined;
  const wanted = $derived.by(() => {
    const own = params();
    const cluster = place.param("cluster"); // the one of the whole page, unless the view asks for another
    const whole = own && cluster ? { ...own, cluster: ("cluster" in own && own.cluster) || cluster } : own;
    return JSON.stringify(whole); // a text: the same question again is no change
  });
  $effect(() => {
    const key = wanted;
    void live.version(tables);
    void live.returns; // what the server did not answer while it was gone
    const now = JSON.parse(key) as ParamsOf<P> | null;
    if (!now) return;
    const moved = key !== lastKey;
    lastKey = key;
    newsMs = performance.now();
    if (moved) {
      stop.abort();
      stop = new AbortController();
      running = false;
      again = undefined;
    }
    const { signal } = stop;
    const ask = (): void => {
      clearTimeout(begin);
      const wait = moved ? 0 : Math.max(0, asked.askedAtMs + asked.againMs - performance.now());
      begin = setTimeout(async () => {
        running = true;
        await load(asked, path, now, signal, moved);
        if (signal.aborted) return;
        running = false;
        const isOlder = asked.madeAtMs < newsMs && !asked.problem; // it was made for another page
        const next = again ?? (isOlder ? ask : undefined);
        again = undefined;
        next?.();
      }, wait);
    };
    if (running) again = ask;
    else ask();
  });
  $effect(() => () => {
    clearTimeout(begin);
    stop.abort();
  });
  return asked;
}

async function load<P extends GetPath>(
  asked: Asked<Answer<P>>,
  path: P,
  params: ParamsOf<P>,
  signal: AbortSignal,
  moved: boolean,
): Promise<void> {
  const dimming = moved ? setTimeout(() => (asked.dim = true), DIM_AFTER_MS) : undefined;
  asked.askedAtMs = performance.now();
  try {
    // What is only asked again may be what another page was answered meanwhile.
    const got = await sized(path, params, signal, moved ? 0 : Math.floor(asked.againMs / 1000));
    asked.againMs = paceMs(Math.max(got.tookMs, performance.now() - asked.askedAtMs), got.chars);
    asked.madeAtMs = got.ageMs === undefined ? asked.askedAtMs : performance.now() - got.ageMs;
    asked.now = got.answer;
    asked.problem = undefined;
  } catch (error) {
    if (signal.aborted) return;
    asked.againMs = paceMs(performance.now() - asked.askedAtMs, 0);
    asked.problem = error instanceof ApiError ? error : new ApiError("broken", String(error), path);
  } finally {
    clearTimeout(dimming);
    if (!signal.aborted) asked.dim = false;
  }
}
