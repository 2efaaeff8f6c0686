// What this browser keeps for its reader. One that keeps nothing (its storage is blocked, or full) breaks no page.

/** What was kept under a name; empty if nothing. */
export function recall(name: string): string {
  try {
    return globalThis.localStorage?.getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Keep a text under a name, if the browser lets us. */
export function keep(name: string, value: string): void {
  try {
    globalThis.localStorage?.setItem(name, value);
  } catch {
    // It is asked again the next time.
  }
}
