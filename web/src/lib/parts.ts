// Parts of the page that are loaded when they are first shown, and what becomes of one that does not come.

export const AGAIN_MS = 10_000; // a part that is missing again so soon is not there: another load would not help
const LOADED = "leadline.loaded-again";

/** Whether to load the page again for a part that did not come although the server answers: after an upgrade its parts
 *  have new names. Once only: `memory` is the session's, which a browser may block. */
export function shouldReload(nowMs: number, memory: () => Storage): boolean {
  try {
    const held = memory();
    const last = Number(held.getItem(LOADED) ?? 0);
    if (nowMs - last < AGAIN_MS) return false;
    held.setItem(LOADED, String(nowMs));
    return true;
  } catch {
    return false; // without a memory it might be for ever
  }
}
