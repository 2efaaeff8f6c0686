// Pieces of a plot that need a canvas or SVG: hatching of what is not known, shapes of events.

import type { Overlay } from "./plot";

/** Lines of a plot by their place, as variables of app.css; after the last they begin again, dashed. */
export const LINE_COLOURS = ["accent", "watch", "good", "bad", "faint"];

const made = new Map<string, CanvasPattern>();

/** Hatching in a colour, for `fillStyle`. */
export function hatching(stroke: string): CanvasPattern | string {
  const known = made.get(stroke);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  if (!pen) return stroke;
  pen.strokeStyle = stroke;
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1;
  for (const by of [-8, 0, 8]) {
    pen.moveTo(by, 8);
    pen.lineTo(by + 8, 0);
  }
  pen.stroke();
  const pattern = pen.createPattern(tile, "repeat");
  if (!pattern) return stroke;
  made.set(stroke, pattern);
  return pattern;
}

/** The path of an event's mark: the shapes of State.svelte, a short bar where it has no state. */
export function shape(state: Overlay["state"]): Record<string, string | number> {
  switch (state) {
    case "bad":
      return { d: "M1 1h8v8h-8z", fill: "var(--bad)" };
    case "watch":
      return { d: "M5 1 9.500 9H.5z", fill: "var(--surface)", stroke: "var(--watch)", "stroke-width": 1.5 };
    case "suppressed":
      return {
        d: "M5 1a4 4 0 1 0 .01 0M2 8 8 2",
        fill: "none",
        stroke: "var(--unknown)",
        "stroke-width": 1.2,
      };
    default:
      return { d: "M5 1v8", fill: "none", stroke: "var(--faint)", "stroke-width": 2 };
  }
}
