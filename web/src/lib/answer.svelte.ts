// One answer of the API that a view shows: kept while the next one comes, asked again when its tables get rows.

import { type Answer, ApiError, get, type GetPath, type ParamsOf } from "./api";
import { live } from "./live.svelte";

const DIM_AFTER_MS = 500;
const AGAIN_MS = 1000; // at most so often for one answer, however fast rows come

export class Asked<A> {
  /** The newest answer; undefined until the first. */
  now = $state.raw<A | undefined>();
  problem = $state.raw<ApiError | undefined>();
  /** Whether the picture is older than what was asked, for more than half a second. */
  dim = $state(false);
  askedAtMs = 0;
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
  let begin: ReturnType<typeof setTimeout> | undefined;
  const wanted = $derived(JSON.stringify(params())); // a text: the same question again is no change
  $effect(() => {
    const key = wanted;
    void live.version(tables);
    const now = JSON.parse(key) as ParamsOf<P> | null;
    if (!now) return;
    const moved = key !== lastKey;
    lastKey = key;
    if (moved) {
      stop.abort();
      stop = new AbortController();
      running = false;
      again = undefined;
    }
    const { signal } = stop;
    const ask = (): void => {
      clearTimeout(begin);
      const wait = moved ? 0 : Math.max(0, asked.askedAtMs + AGAIN_MS - performance.now());
      begin = setTimeout(async () => {
        running = true;
        await load(asked, path, now, signal, moved);
        if (signal.aborted) return;
        running = false;
        const next = again;
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
    asked.now = await get(path, params, signal);
    asked.problem = undefined;
  } catch (error) {
    if (signal.aborted) return;
    asked.problem = error instanceof ApiError ? error : new ApiError("broken", String(error), path);
  } finally {
    clearTimeout(dimming);
    if (!signal.aborted) asked.dim = false;
  }
}
