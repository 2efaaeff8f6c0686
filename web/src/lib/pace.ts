// How often an answer is asked for again while rows keep coming: small and quick ones at once, large ones less often.

const LEAST_MS = 2000; // windows close every one to five seconds: sooner there is seldom news
const MOST_MS = 30_000;
const TIMES = 10; // the server works a tenth of the time at most for one answer of this page
const CHARS_PER_MS = 100; // an answer of 1 MB is asked for every 10 s

/** The time from one question to the next, from what the last answer took and how long it was. */
export function paceMs(tookMs: number, chars: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, TIMES * tookMs, chars / CHARS_PER_MS));
}
