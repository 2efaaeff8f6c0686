// The keyboard: `g` and a letter jumps to a view, `j k` move in the list of a view, `enter` follows down, `u` goes up.

import { VIEWS } from "../routes";
import { place } from "./place.svelte";

export const KEYS: readonly (readonly [string, string])[] = [
  ["/", "the query box"],
  ...VIEWS.filter((view) => view.key).map((view) => [`g ${view.key}`, view.title] as const),
  ["j  k", "next, previous row"],
  ["enter", "follow the row down"],
  ["u", "up"],
  ["d", "the numbers behind the plots"],
  ["?", "this list"],
  ["esc", "close"],
];

const ROWS = "[data-row]";

/** What one key does; `hooks` are of the frame. Keys typed into a field are its own. */
export function onKey(
  event: KeyboardEvent,
  hooks: Record<"query" | "help" | "numbers" | "close", () => void>,
): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return hooks.close();
  if (inField(event.target)) return;
  const after = pending();
  if (after === "g") {
    const view = VIEWS.find((one) => one.key === event.key);
    if (view) {
      event.preventDefault();
      place.go(view.path);
    }
    return;
  }
  const does: Record<string, () => void> = {
    "/": hooks.query,
    "?": hooks.help,
    d: hooks.numbers,
    g: () => (begun = performance.now()),
    j: () => move(1),
    k: () => move(-1),
    u: up,
  };
  const act = does[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

const CHORD_MS = 1500;
let begun = -Infinity;

function pending(): string {
  const waits = performance.now() - begun < CHORD_MS;
  begun = -Infinity;
  return waits ? "g" : "";
}

function inField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next =
    rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  const focus = next?.matches("a,button,[tabindex]")
    ? next
    : next?.querySelector<HTMLElement>("a,button,[tabindex]");
  focus?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function up(): void {
  const parts = place.parts;
  place.go(parts.length > 1 ? `/${parts.slice(0, -1).map(encodeURIComponent).join("/")}` : "/");
}
