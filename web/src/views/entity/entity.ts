// What the page of an entity shows, from what the API tells: lines of plots, what is missing, neighbours in groups.

import type { components } from "../../api/schema";
import { entityOf } from "../../lib/entity";
import type { Line } from "../../lib/plot";

export type Page = components["schemas"]["EntityAnswer"];
export type Plot = components["schemas"]["EntityPlot"];
export type Near = components["schemas"]["EntityNear"];

const KINDS: Readonly<Record<string, string>> = {
  gpu: "GPU",
  host: "Host",
  port: "Port",
  swport: "Switch port",
  switch: "Switch",
  link: "Link",
  storage: "Storage",
  xcvr: "Transceiver",
  nvlink: "NVLink",
  process: "Process",
  pod: "Pod",
  service: "Program",
};

/** `Switch port`: what a kind of entity is called. */
export function kindName(kind: string): string {
  return KINDS[kind] ?? kind;
}

/** The lines of a plot: its own, limits dashed, then the median of peers with its band. */
export function linesOf(plot: Plot): Line[] {
  const own = plot.lines.map((line): Line => ({
    label: line.label,
    values: line.mean,
    ...(line.low && line.high ? { low: line.low, high: line.high } : {}),
    ...(line.bound ? { colour: "watch", dashed: true } : {}),
  }));
  if (!plot.peers) return own;
  const { count, line, median, low, high } = plot.peers;
  const of = plot.lines.length > 1 ? `, ${line}` : "";
  return [...own, { label: `${count} peers${of}`, values: median, low, high, colour: "faint", dashed: true }];
}

/** Titles of plots in which events of a kind show; of others the first plot of the entity is drawn. */
const SHOWS: readonly (readonly [RegExp, RegExp])[] = [
  [/link|carrier|port/, /^(Carrier changes|Port is|Carrier)$/],
  [/xid|gpu-(error|lost)/, /^Last XID$/],
  [/oom|memory/, /^(Memory available|Memory used)$/],
  [/ecc|row-remap/, /^Memory errors$/],
  [/thermal|throttl/, /^(Slowed down|Temperature)$/],
  [/disk|storage|nfs/, /^(Disk busy|Time for requests)$/],
];

/** Of an entity's plots the one that an event of this kind shows in; undefined where nothing is stored. */
export function plotOfEvent(plots: readonly Plot[], kind: string): Plot | undefined {
  const told = plots.filter((plot) => !plot.source);
  const titles = SHOWS.find(([of]) => of.test(kind))?.[1];
  return told.find((plot) => titles?.test(plot.title)) ?? told[0];
}

export interface Missing {
  readonly source: string;
  readonly page: string;
  readonly command: string;
  readonly titles: readonly string[];
}

/** Plots of which nothing is stored, by what would tell them. */
export function missing(plots: readonly Pick<Plot, "source" | "page" | "command" | "title">[]): Missing[] {
  const found = new Map<string, Missing & { titles: string[] }>();
  for (const { source, page, command, title } of plots) {
    if (!source) continue;
    const one = found.get(source) ?? { source, page, command, titles: [] };
    one.titles.push(title);
    found.set(source, one);
  }
  return [...found.values()];
}

export interface Group {
  readonly title: string;
  readonly near: readonly Near[];
}

/** Neighbours: what depends on it, what it depends on, and the other ends of its links. */
export function groups(near: readonly Near[]): Group[] {
  return [
    { title: "depends on it", near: near.filter((one) => one.above && !one.link) },
    { title: "it depends on", near: near.filter((one) => !one.above && !one.link) },
    { title: "linked to", near: near.filter((one) => one.link) },
  ].filter((group) => group.near.length);
}

/** `0, 1, 2 … of 64 ranks`, `rank 5`. */
export function rankWords(ranks: readonly number[], total: number): string {
  if (!total) return "";
  const told = ranks.join(", ");
  return total === 1 ? `rank ${told}` : total > ranks.length ? `ranks ${told} … (${total})` : `ranks ${told}`;
}

/** What heads the page: what people call it, else its name. */
export function headOf(page: Pick<Page, "entity" | "name">): string {
  return page.name || entityOf(page.entity).name;
}
