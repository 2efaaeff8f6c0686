// How boxes and lines look on Cytoscape's canvas: colours of app.css, the shapes of State.svelte, shared parts outlined twice.

import type { ElementDefinition, StylesheetStyle } from "cytoscape";
import type { State } from "../../lib/state";
import { bytes } from "../../lib/units";
import type { Box, Line, Picture } from "./fold";

export interface Look {
  readonly lit: ReadonlySet<string> | null; // boxes that are not dimmed; null: all
  readonly chosen: string; // box
}

const ROW_HEIGHT = 24;
const LINE_HEIGHT = 14;
const LETTER = 7; // width of one at 12 px, a little more than it is

/** Lines thicker where they carry more; `most` is what the busiest carries. */
export function widthOf(line: Pick<Line, "bytes">, most: number): number {
  return line.bytes !== null && most > 0 ? 1 + 4 * Math.sqrt(line.bytes / most) : 1;
}

/** What Cytoscape draws: places come from its layout. */
export function elementsOf(picture: Picture): ElementDefinition[] {
  const most = Math.max(0, ...picture.lines.map((line) => line.bytes ?? 0));
  return [
    ...picture.boxes.map((box) => ({
      group: "nodes" as const,
      data: {
        id: box.id,
        label: box.lines.join("\n"),
        layer: box.layer,
        width: boxWidth(box),
        height: ROW_HEIGHT + (box.lines.length - 1) * LINE_HEIGHT,
        state: box.state,
      },
      classes: [box.group ? "group" : "", box.shared ? "shared" : ""].join(" ").trim(),
    })),
    ...picture.lines.map((line) => ({
      group: "edges" as const,
      data: {
        id: `${line.child}\n${line.parent}`,
        source: line.child,
        target: line.parent,
        width: widthOf(line, most),
        state: line.state,
        label:
          line.state === "good" || line.state === "unknown" ? "" : (line.edges[0]?.why.split(":")[0] ?? ""),
      },
      classes: [
        line.edges.some((edge) => edge.link) ? "link" : "",
        line.edges.some((edge) => edge.used) ? "" : "unused",
        line.shared ? "shared" : "",
      ]
        .join(" ")
        .trim(),
    })),
  ];
}

function boxWidth(box: Box): number {
  const longest = Math.max(...box.lines.map((line) => line.length));
  return Math.round(longest * LETTER + (box.state === "good" ? 16 : 36));
}

/** Colours by name as app.css has them. */
export type Ink = (name: string) => string;

export function styleOf(ink: Ink): StylesheetStyle[] {
  const outline = (state: State): string =>
    state === "watch" || state === "bad" ? ink(state) : ink("unknown");
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle",
        "corner-radius": "4",
        width: "data(width)",
        height: "data(height)",
        "text-wrap": "wrap",
        label: "data(label)",
        "font-size": 12,
        "font-family": "system-ui, sans-serif",
        color: ink("text"),
        "text-valign": "center",
        "text-halign": "center",
        "background-color": ink("surface"),
        "border-width": 1,
        "border-color": ink("unknown"),
        "transition-duration": 0,
      },
    },
    ...(["watch", "bad", "unknown", "suppressed"] as const).map((state) => ({
      selector: `node[state = "${state}"]`,
      style: {
        "background-image": markOf(state, ink),
        "background-width": "12px",
        "background-height": "12px",
        "background-position-x": "6px",
        "background-position-y": "50%",
        "background-fit": "none" as const,
        "border-color": outline(state),
        "border-width": state === "bad" ? 2 : 1,
        "text-margin-x": 8,
      },
    })),
    {
      selector: "node.group",
      style: {
        ghost: "yes",
        "ghost-offset-x": 3,
        "ghost-offset-y": 3,
        "ghost-opacity": 0.6,
        "background-color": ink("raised"),
      },
    },
    { selector: "node.shared", style: { "border-style": "double", "border-width": 4 } },
    {
      selector: "edge",
      style: {
        width: "data(width)",
        "line-color": ink("rule"),
        "curve-style": "bezier",
        label: "data(label)",
        "font-size": 11,
        "font-family": "system-ui, sans-serif",
        color: ink("text"),
        "text-background-color": ink("surface"),
        "text-background-opacity": 1,
        "text-background-padding": "2px",
      },
    },
    { selector: "edge.link", style: { "line-color": ink("unknown") } },
    {
      selector: "edge.shared",
      style: { "line-style": "solid", "line-outline-width": 1, "line-outline-color": ink("text") },
    },
    {
      selector: 'edge[state = "watch"]',
      style: { "line-color": ink("watch"), "line-style": "dashed", width: 2 },
    },
    { selector: 'edge[state = "bad"]', style: { "line-color": ink("bad"), width: 4 } },
    { selector: "edge.link[state = 'unknown']", style: { "line-style": "dotted" } },
    { selector: "edge.unused", style: { "line-style": "dashed" } },
    { selector: "edge.lit", style: { "line-color": ink("accent") } },
    { selector: 'edge.lit[state = "bad"]', style: { "line-color": ink("bad") } },
    { selector: 'edge.lit[state = "watch"]', style: { "line-color": ink("watch") } },
    {
      selector: "node.chosen",
      style: { "background-color": ink("lit"), "border-color": ink("accent"), "border-width": 2 },
    },
    { selector: "node.chosen.shared", style: { "border-width": 5 } },
    { selector: ".dimmed", style: { opacity: 0.45 } },
  ];
}

/** The shapes of State.svelte as an image. */
export function markOf(state: State, ink: Ink): string {
  const shapes: Record<State, string> = {
    good: "",
    watch: `<path d="M6 1.5 11 10.5H1z" fill="none" stroke="${ink("watch")}" stroke-width="1.5"/>`,
    bad: `<rect x="1.5" y="1.5" width="9" height="9" fill="${ink("bad")}"/>`,
    unknown:
      `<path d="M1.500 4.500 4.500 1.500M1.500 7.500 7.500 1.500M1.500 10.500 10.500 1.500M4.500 10.500 10.500 4.500` +
      `M7.500 10.500 10.500 7.500" stroke="${ink("unknown")}" stroke-width="1"/>` +
      `<rect x="1.5" y="1.5" width="9" height="9" fill="none" stroke="${ink("unknown")}" stroke-width=".8"/>`,
    suppressed:
      `<circle cx="6" cy="6" r="4.5" fill="none" stroke="${ink("unknown")}" stroke-width="1.2"/>` +
      `<path d="M2 10 10 2" stroke="${ink("unknown")}" stroke-width="1.2"/>`,
  };
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="12" height="12" viewBox="0 0 12 12">${shapes[state]}</svg>`;
  return `data:image/svg+xml;utf8,${encodeURIComponent(svg)}`;
}

/** What a line is, in words: for the panel and the list. */
export function lineWords(line: Pick<Line, "edges" | "bytes">, seconds: number | null): string {
  const kinds = [...new Set(line.edges.map((edge) => (edge.link ? "link" : edge.kind)))].join(", ");
  const many = line.edges.length > 1 ? `${line.edges.length} × ` : "";
  const carried = line.bytes === null ? "" : `, ${bytes(line.bytes)}${seconds ? ` in ${seconds} s` : ""}`;
  return `${many}${kinds}${carried}`;
}
