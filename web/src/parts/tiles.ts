// Drawing tiles: the whole scene into a buffer somewhat larger than the screen, so that panning only copies it.

import type { Layout } from "../views/fleet/layout";
import { fitted } from "./canvas";

/** What is drawn, of each tile: a class (its colour and shape), text, group outline, bad corners, whether it is dimmed. */
export interface Scene {
  readonly layout: Layout;
  readonly classes: Uint8Array; // good, suppressed, unknown, watch, bad
  readonly names: readonly string[];
  readonly texts: (tile: number) => string; // second line, where there is room
  readonly outline: Int32Array; // which job; -1: none
  readonly tilesOf: ReadonlyMap<number, readonly number[]>; // of each job
  readonly corners: ReadonlyMap<number, readonly number[]>; // places of bad ports
  readonly fits?: Uint8Array | undefined; // undefined: all do
}

export interface Inks {
  readonly surface: string;
  readonly text: string;
  readonly faint: string;
  readonly rule: string;
  readonly good: string; // of a tile
  readonly tinted: readonly string[]; // ... of a job, where tiles are too small for outlines
  readonly watch: string;
  readonly watchFill: string;
  readonly bad: string;
  readonly badText: string;
  readonly unknown: string;
  readonly jobs: readonly string[];
  readonly sans: string;
}

/** Where the screen looks: scene = (screen - offset) / scale. */
export interface View {
  readonly scale: number;
  readonly x: number;
  readonly y: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A view as a URL has it: the scene's place in the middle of the screen, and how large a tile is; empty: it shows all. */
export function written(view: View | undefined, screen: Size): string {
  if (!view) return "";
  const middle = [(screen.width / 2 - view.x) / view.scale, (screen.height / 2 - view.y) / view.scale];
  return [...middle, view.scale].map((value) => String(Math.round(value * 100) / 100)).join("_");
}

/** The view that was written so; undefined where it means nothing. */
export function read(text: string, screen: Size): View | undefined {
  const [x, y, scale, more] = text.split("_").map(Number);
  if (x === undefined || y === undefined || scale === undefined || more !== undefined) return undefined;
  if (![x, y, scale].every(Number.isFinite) || scale <= 0) return undefined;
  return { scale, x: screen.width / 2 - x * scale, y: screen.height / 2 - y * scale };
}

/** The view that shows all of a layout in the middle, tiles never larger than `most`. */
export function fit(layout: Size, screen: Size, most = 132, margin = 8): View {
  if (!layout.width || !layout.height) return { scale: 1, x: 0, y: 0 };
  const scale = Math.min(
    most,
    (screen.width - 2 * margin) / layout.width,
    (screen.height - 2 * margin) / layout.height,
  );
  return {
    scale,
    x: Math.max(margin, (screen.width - layout.width * scale) / 2),
    y: margin,
  };
}

/** The view after zooming by a factor around a point of the screen. */
export function zoomed(
  view: View,
  factor: number,
  atX: number,
  atY: number,
  least: number,
  most: number,
): View {
  const scale = Math.min(most, Math.max(least, view.scale * factor));
  const by = scale / view.scale;
  return { scale, x: atX - (atX - view.x) * by, y: atY - (atY - view.y) * by };
}

/** Keeps some of the layout on the screen. */
export function held(view: View, layout: Size, screen: Size): View {
  const keep = 40;
  const within = (at: number, size: number, room: number): number =>
    Math.min(room - keep, Math.max(keep - size * view.scale, at));
  return {
    scale: view.scale,
    x: within(view.x, layout.width, screen.width),
    y: within(view.y, layout.height, screen.height),
  };
}

/** Whether what was drawn for `drawn` (with `margin` around the screen) covers the screen seen at `view`. */
export function covers(drawn: View, view: View, margin: Size): boolean {
  return (
    drawn.scale === view.scale &&
    Math.abs(view.x - drawn.x) <= margin.width &&
    Math.abs(view.y - drawn.y) <= margin.height
  );
}

const SUPPRESSED = 1;
const UNKNOWN = 2;
const WATCH = 3;
const BAD = 4;
const MARK_PX = 13; // from this size a tile carries its state's shape
const OUTLINE_PX = 11; // ... jobs are outlined; below, their tiles are tinted
const SEEN_PX = 7; // what is not good is never drawn smaller
const TEXT_PX = 46;

/** Draw all tiles in sight. `pen` is in CSS pixels; `hatch` fills what is unknown. */
export function paint(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  view: View,
  size: Size,
  inks: Inks,
  hatch: CanvasPattern | string,
): void {
  const { layout, classes } = scene;
  const px = view.scale;
  const gap = gapOf(px);
  const tile = px - gap;
  const sought: number[][] = [[], [], [], [], []];
  for (let host = 0; host < layout.x.length; host += 1) {
    const x = (layout.x[host] ?? NaN) * px + view.x;
    const y = (layout.y[host] ?? NaN) * px + view.y;
    if (x > size.width || y > size.height || !(x + px > 0) || !(y + px > 0)) continue;
    sought[classes[host] ?? UNKNOWN]?.push(host);
  }
  const left = (host: number): number => (layout.x[host] ?? 0) * px + view.x;
  const top = (host: number): number => (layout.y[host] ?? 0) * px + view.y;
  const fills = [inks.good, inks.good, hatch, inks.watchFill, inks.bad];
  const tinted = px < OUTLINE_PX && inks.tinted.length > 0;
  const dims = scene.fits ? [false, true] : [false];
  for (const dim of dims) {
    pen.globalAlpha = dim ? 0.16 : 1;
    for (let state = 0; state < 5; state += 1) {
      pen.fillStyle = fills[state] ?? hatch;
      const some = sought[state] ?? [];
      for (let at = 0; at < some.length; at += 1) {
        const host = some[at] ?? 0;
        if (scene.fits && Boolean(scene.fits[host]) === dim) continue;
        const job = tinted ? (scene.outline[host] ?? -1) : -1;
        if (state === 0) pen.fillStyle = inks.tinted[job % inks.tinted.length] ?? inks.good;
        // Tiles too small for gaps are drawn as runs of neighbours.
        let run = 1;
        while (gap === 0 && !scene.fits && some[at + run] === host + run && follows(layout, host + run))
          run += 1;
        pen.fillRect(left(host), top(host), tile + (run - 1) * px, tile);
        at += run - 1;
      }
    }
  }
  pen.globalAlpha = 1;
  const shown = (host: number): boolean => !scene.fits || Boolean(scene.fits[host]);
  for (const state of [SUPPRESSED, UNKNOWN, WATCH, BAD])
    for (const host of sought[state] ?? [])
      if (shown(host)) mark(pen, state, left(host), top(host), tile, inks);
  if (px < SEEN_PX) enlarged(pen, sought, shown, left, top, tile, inks);
  if (!tinted) outlines(pen, scene, sought.flat().filter(shown), view, inks);
  corners(pen, scene, left, top, tile, inks);
  if (px >= TEXT_PX) words(pen, scene, sought, left, top, tile, inks);
  titles(pen, scene, view, size, inks);
}

function follows(layout: Layout, host: number): boolean {
  return layout.y[host] === layout.y[host - 1] && layout.x[host] === (layout.x[host - 1] ?? 0) + 1;
}

/** The shape of a state: watch a hollow triangle, unknown an edge around its hatching, suppressed a struck circle; bad is the
 *  filled square itself. Small watched tiles are hollow squares. */
function mark(
  pen: CanvasRenderingContext2D,
  state: number,
  x: number,
  y: number,
  tile: number,
  inks: Inks,
): void {
  if (tile < 3) return;
  pen.lineWidth = 1;
  if (state === UNKNOWN) {
    pen.strokeStyle = inks.unknown;
    pen.strokeRect(x + 0.5, y + 0.5, tile - 1, tile - 1);
  } else if (state === WATCH) {
    pen.strokeStyle = inks.watch;
    pen.lineWidth = tile >= MARK_PX ? 1.5 : 1;
    pen.strokeRect(x + 0.5, y + 0.5, tile - 1, tile - 1);
    if (tile < MARK_PX) return;
    const size = Math.min(14, tile * 0.5);
    const [cx, cy] = [x + tile - size * 0.8, y + size * 0.85];
    pen.beginPath();
    pen.moveTo(cx, cy - size / 2);
    pen.lineTo(cx + size / 2, cy + size / 2);
    pen.lineTo(cx - size / 2, cy + size / 2);
    pen.closePath();
    pen.stroke();
  } else if (state === SUPPRESSED && tile >= MARK_PX) {
    const r = Math.min(7, tile * 0.25);
    const [cx, cy] = [x + tile - r * 1.6, y + r * 1.6];
    pen.strokeStyle = inks.unknown;
    pen.beginPath();
    pen.arc(cx, cy, r, 0, 2 * Math.PI);
    pen.moveTo(cx - r, cy + r);
    pen.lineTo(cx + r, cy - r);
    pen.stroke();
  }
}

/** Bad and watched tiles of a fleet that is seen from far, large enough to be found; their shapes stay. */
function enlarged(
  pen: CanvasRenderingContext2D,
  sought: readonly (readonly number[])[],
  shown: (host: number) => boolean,
  left: (host: number) => number,
  top: (host: number) => number,
  tile: number,
  inks: Inks,
): void {
  for (const state of [WATCH, BAD])
    for (const host of sought[state] ?? []) {
      if (!shown(host)) continue;
      const [x, y] = [left(host) + (tile - SEEN_PX) / 2, top(host) + (tile - SEEN_PX) / 2];
      pen.fillStyle = inks.surface;
      pen.fillRect(x - 1, y - 1, SEEN_PX + 2, SEEN_PX + 2);
      pen.fillStyle = state === BAD ? inks.bad : inks.watchFill;
      pen.fillRect(x, y, SEEN_PX, SEEN_PX);
      if (state === BAD) continue;
      pen.strokeStyle = inks.watch;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, SEEN_PX - 1, SEEN_PX - 1);
    }
}

/** One line around tiles of a job, drawn where the neighbour is of another. `strong`: whatever the size. */
export function outlines(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  tiles: readonly number[],
  view: View,
  inks: Inks,
  strong = false,
): void {
  if (!inks.jobs.length) return;
  const { x, y } = scene.layout;
  const px = view.scale;
  const half = gapOf(px) / 2;
  const at = new Map<number, number>();
  const columns = Math.ceil(scene.layout.width) * 8 + 16;
  const key = (cx: number, cy: number): number => Math.round(cy * 8) * columns + Math.round(cx * 8);
  for (const host of tiles) at.set(key(x[host] ?? 0, y[host] ?? 0), scene.outline[host] ?? -1);
  const lines = new Map<string, [number, number, number, number][]>();
  for (const host of tiles) {
    const job = scene.outline[host] ?? -1;
    if (job < 0) continue;
    const [hx, hy] = [x[host] ?? 0, y[host] ?? 0];
    const [l, t] = [hx * px + view.x - half, hy * px + view.y - half];
    const ink = inks.jobs[job % inks.jobs.length] ?? "";
    const list = lines.get(ink) ?? [];
    lines.set(ink, list);
    const own = strong ? 0 : 1; // inside its own edge, so that two jobs' lines lie side by side
    if (at.get(key(hx, hy - 1)) !== job) list.push([l, t + own, l + px, t + own]);
    if (at.get(key(hx, hy + 1)) !== job) list.push([l, t + px - own, l + px, t + px - own]);
    if (at.get(key(hx - 1, hy)) !== job) list.push([l + own, t, l + own, t + px]);
    if (at.get(key(hx + 1, hy)) !== job) list.push([l + px - own, t, l + px - own, t + px]);
  }
  pen.lineWidth = (px > 24 ? 2 : px > 9 ? 1.5 : 1) + (strong ? 1 : 0);
  for (const [ink, list] of lines) {
    pen.strokeStyle = ink;
    pen.beginPath();
    for (const [ax, ay, bx, by] of list) {
      pen.moveTo(ax, ay);
      pen.lineTo(bx, by);
    }
    pen.stroke();
  }
}

function gapOf(px: number): number {
  return px >= 3 ? Math.min(4, Math.max(1, px * 0.08)) : 0;
}

/** Bad NIC ports as filled corners; with more than four ports two may share one. */
function corners(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  left: (host: number) => number,
  top: (host: number) => number,
  tile: number,
  inks: Inks,
): void {
  if (tile < 6) return;
  const size = Math.max(3, Math.min(16, tile * 0.28));
  pen.lineWidth = 1;
  for (const [host, places] of scene.corners) {
    const [x, y] = [left(host), top(host)];
    for (const place of places) {
      const [right, low] = [place % 2 === 1, place % 4 >= 2];
      const [cx, cy] = [right ? x + tile : x, low ? y + tile : y];
      pen.fillStyle = inks.bad;
      pen.strokeStyle = inks.surface;
      pen.beginPath();
      pen.moveTo(cx, cy);
      pen.lineTo(cx + (right ? -size : size), cy);
      pen.lineTo(cx, cy + (low ? -size : size));
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
  }
}

function words(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  sought: readonly (readonly number[])[],
  left: (host: number) => number,
  top: (host: number) => number,
  tile: number,
  inks: Inks,
): void {
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  const size = tile >= 72 ? 12 : 11;
  sought.forEach((some, state) => {
    for (const host of some) {
      pen.globalAlpha = !scene.fits || scene.fits[host] ? 1 : 0.3;
      const room = tile - 10;
      if (state === UNKNOWN) {
        pen.fillStyle = inks.surface; // so that it can be read on hatching
        pen.fillRect(left(host) + 2, top(host) + tile / 2 - size - 2, tile - 4, 2 * size + 9);
      }
      pen.fillStyle = state === BAD ? inks.badText : inks.text;
      pen.font = `600 ${size}px ${inks.sans}`;
      pen.fillText(fitted(pen, scene.names[host] ?? "", room), left(host) + 5, top(host) + tile / 2 - 1);
      pen.font = `${size}px ${inks.sans}`;
      pen.fillStyle = state === BAD ? inks.badText : inks.faint;
      pen.fillText(fitted(pen, scene.texts(host), room), left(host) + 5, top(host) + tile / 2 + size + 2);
    }
  });
  pen.globalAlpha = 1;
}

function titles(pen: CanvasRenderingContext2D, scene: Scene, view: View, size: Size, inks: Inks): void {
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  for (const block of scene.layout.blocks) {
    const [x, y] = [block.x * view.scale + view.x, block.y * view.scale + view.y];
    const room = block.width * view.scale;
    if (x > size.width || y > size.height || x + room < 0 || y + block.height * view.scale < 0) continue;
    const high = block.head * view.scale;
    const font = Math.min(block.level === 0 ? 14 : 12, high * 0.8);
    if (font < 7.5 || room < 16) continue;
    pen.font = `${block.level === 0 ? "600 " : ""}${font}px ${inks.sans}`;
    pen.fillStyle = block.level === 0 ? inks.text : inks.faint;
    pen.fillText(fitted(pen, block.name, room), x, y + high - Math.max(3, font * 0.3));
  }
}
