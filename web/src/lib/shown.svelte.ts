// How the reader likes to see it: kept in this browser, nowhere else. What is seen stands in the URL (place).

import type { Zone } from "./moment";
import { keep, recall } from "./kept";

const THEME = "leadline.theme";
const ZONE = "leadline.zone";

class Shown {
  /** Whether plots show their numbers. */
  numbers = $state(false);
  #chosen = $state<"light" | "dark" | "">("");
  #system = $state<"light" | "dark">("light");
  #zone = $state<Zone>(recall(ZONE) === "local" ? "local" : "utc");

  constructor() {
    const kept = recall(THEME);
    if (kept === "light" || kept === "dark") this.#chosen = kept;
    const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
    if (!dark) return;
    this.#system = dark.matches ? "dark" : "light";
    dark.addEventListener("change", () => (this.#system = dark.matches ? "dark" : "light"));
  }

  get theme(): "light" | "dark" {
    return this.#chosen || this.#system;
  }

  /** How times that are typed are read. What is shown is UTC, so that people in two zones talk of the same. */
  get zone(): Zone {
    return this.#zone;
  }
  set zone(zone: Zone) {
    this.#zone = zone;
    keep(ZONE, zone);
  }

  /** The other one of light and dark, from now on. */
  turn(): void {
    this.#chosen = this.theme === "dark" ? "light" : "dark";
    keep(THEME, this.#chosen);
  }
}

export const shown = new Shown();

/** A colour of app.css, for canvases; read anew when the theme changes. */
export function colour(name: string): string {
  void shown.theme;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
