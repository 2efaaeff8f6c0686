// Every view: one line here, one file in views/. A view loads when it is first shown.

import type { Component } from "svelte";

export interface View {
  readonly path: string; // its first part decides
  readonly title: string;
  readonly key?: string; // after `g`
  readonly menu?: false; // reached from others
  readonly load: () => Promise<{ default: Component }>;
}

export const VIEWS: readonly View[] = [
  { path: "/", title: "Now", key: "n", load: () => import("./views/Now.svelte") },
  { path: "/fleet", title: "Fleet", key: "f", load: () => import("./views/Fleet.svelte") },
  { path: "/jobs", title: "Jobs", key: "j", load: () => import("./views/Jobs.svelte") },
  { path: "/graph", title: "Graph", key: "g", load: () => import("./views/Graph.svelte") },
  { path: "/paths", title: "Paths", key: "p", load: () => import("./views/Paths.svelte") },
  {
    path: "/expectations",
    title: "Expectations",
    key: "e",
    load: () => import("./views/Expectations.svelte"),
  },
  { path: "/incidents", title: "Incidents", key: "i", load: () => import("./views/Incidents.svelte") },
  { path: "/clock", title: "Clock", key: "c", load: () => import("./views/Clock.svelte") },
  { path: "/explore", title: "Metrics", key: "m", load: () => import("./views/Metrics.svelte") },
  { path: "/telemetry", title: "Telemetry", key: "t", load: () => import("./views/Telemetry.svelte") },
  { path: "/entity", title: "Entity", menu: false, load: () => import("./views/Entity.svelte") },
  { path: "/compare", title: "Compare", menu: false, load: () => import("./views/Compare.svelte") },
];

/** The view of a path; undefined for one that there is not. */
export function viewOf(parts: readonly string[]): View | undefined {
  return VIEWS.find((view) => view.path === `/${parts[0] ?? ""}`);
}
