// How a fault reaches a job: the shortest ways from a component up to it, as the graph of that moment has them.

import type { components } from "../api/schema";
import { entityOf } from "./entity";

type Edge = Pick<components["schemas"]["GraphEdge"], "child" | "parent" | "link" | "used">;

/** The ways from a cause to a job, a level each: the cause first, the job last; entities of a level are on ways of the
 *  same, shortest length. Empty: the graph has none. */
export function chain(edges: readonly Edge[], cause: string, job: string): string[][] {
  const used = edges.filter((one) => one.used);
  const link = entityOf(cause).kind === "link";
  const begin = link
    ? used.filter((one) => one.link === cause).flatMap((one) => [one.child, one.parent])
    : [cause];
  const top = `job:${job}`;
  const up = reached(begin, used, "parent", "child");
  const far = up.get(top);
  if (far === undefined) return [];
  const down = reached([top], used, "child", "parent");
  const levels: string[][] = Array.from({ length: far + 1 }, () => []);
  for (const [entity, at] of up) if ((down.get(entity) ?? Infinity) + at === far) levels[at]?.push(entity);
  levels.forEach((level) => level.sort((a, b) => a.localeCompare(b, "en", { numeric: true })));
  return link ? [[cause], ...levels] : levels;
}

/** How many edges each entity is away. */
function reached(
  begin: readonly string[],
  edges: readonly Edge[],
  from: "child" | "parent",
  to: "child" | "parent",
): Map<string, number> {
  const next = new Map<string, string[]>();
  for (const one of edges) next.set(one[from], [...(next.get(one[from]) ?? []), one[to]]);
  const found = new Map(begin.map((one) => [one, 0]));
  const queue = [...found.keys()];
  for (let at = 0; at < queue.length; at += 1) {
    const here = queue[at] ?? "";
    for (const one of next.get(here) ?? []) {
      if (found.has(one)) continue;
      found.set(one, (found.get(here) ?? 0) + 1);
      queue.push(one);
    }
  }
  return found;
}
