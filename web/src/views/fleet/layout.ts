// Where each tile stands: groups of groups of hosts, packed into the shape of the screen. One tile is 1 x 1.

export interface Group {
  readonly name: string;
  readonly inner: readonly { readonly name: string; readonly hosts: readonly number[] }[];
}

export interface Block {
  readonly name: string;
  readonly count: number; // hosts in it
  readonly level: 0 | 1;
  readonly head: number; // of its height, for its name
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Layout {
  readonly x: Float32Array; // of each host; NaN: not shown
  readonly y: Float32Array;
  readonly blocks: readonly Block[];
  readonly width: number;
  readonly height: number;
}

const GAP = 0.5; // between inner blocks
const OUTER_GAP = 1.2;
const SCREEN_PX = 800_000; // area of a usual place for tiles
const LINE_PX = 18; // a group's name takes a line of text; where tiles are small those of inner groups show when one zooms
const [HEAD_MOST, OUTER_HEAD_MOST] = [0.5, 2.2];

interface Packed {
  readonly width: number;
  readonly height: number;
  readonly place: (x: number, y: number) => void;
}

/** Places for `hosts` hosts, those of each group together, as wide as `aspect` times as high; names as a screen of that
 *  area has room for. */
export function layoutOf(
  groups: readonly Group[],
  hosts: number,
  aspect: number,
  areaPx = SCREEN_PX,
): Layout {
  const x = new Float32Array(hosts).fill(NaN);
  const y = new Float32Array(hosts).fill(NaN);
  const blocks: Block[] = [];
  const tilePx = Math.min(132, Math.sqrt(areaPx / Math.max(1, hosts) / 1.4));
  const line = LINE_PX / tilePx;
  const alone = groups.length === 1 && groups[0]?.inner.length === 1;
  const outer = groups.map((group) => packedGroup(group, x, y, blocks, line, alone ? aspect : 1.4));
  const whole = shelves(outer, aspect, OUTER_GAP);
  whole.place(0, 0);
  return { x, y, blocks, width: whole.width, height: whole.height };
}

function packedGroup(
  group: Group,
  x: Float32Array,
  y: Float32Array,
  blocks: Block[],
  line: number,
  aspect: number,
): Packed {
  const inner = group.inner.map((one) => packedTiles(one, x, y, blocks, line, aspect));
  const body = shelves(inner, inner.length > 1 ? 2 : 1, GAP);
  const count = group.inner.reduce((sum, one) => sum + one.hosts.length, 0);
  const head = group.name ? Math.min(OUTER_HEAD_MOST, line * 1.2) : 0;
  return {
    width: body.width,
    height: body.height + head,
    place: (atX, atY) => {
      if (group.name)
        blocks.push({
          name: group.name,
          count,
          level: 0,
          head,
          x: atX,
          y: atY,
          width: body.width,
          height: body.height + head,
        });
      body.place(atX, atY + head);
    },
  };
}

function packedTiles(
  one: { readonly name: string; readonly hosts: readonly number[] },
  x: Float32Array,
  y: Float32Array,
  blocks: Block[],
  line: number,
  aspect: number,
): Packed {
  const columns = columnsOf(one.hosts.length, aspect);
  const rows = Math.ceil(one.hosts.length / columns);
  const head = one.name ? Math.min(HEAD_MOST, line) : 0;
  return {
    width: columns,
    height: rows + head,
    place: (atX, atY) => {
      if (head)
        blocks.push({
          name: one.name,
          count: one.hosts.length,
          level: 1,
          head,
          x: atX,
          y: atY,
          width: columns,
          height: rows + head,
        });
      one.hosts.forEach((host, at) => {
        x[host] = atX + (at % columns);
        y[host] = atY + head + Math.floor(at / columns);
      });
    },
  };
}

/** Columns for tiles, near the aspect, with few places left empty. */
export function columnsOf(tiles: number, aspect: number): number {
  const near = Math.max(1, Math.sqrt(tiles * aspect));
  let best = Math.ceil(near);
  let least = Infinity;
  for (let columns = Math.max(1, Math.floor(near * 0.7)); columns <= Math.ceil(near * 1.5); columns += 1) {
    const empty = Math.ceil(tiles / columns) * columns - tiles;
    const cost = empty / Math.max(1, tiles) + Math.abs(Math.log(columns / near)) * 0.4;
    if (cost < least - 1e-9) [best, least] = [columns, cost];
  }
  return best;
}

/** In rows from the left, in their order, each row as high as its highest. */
function shelves(parts: readonly Packed[], aspect: number, gap: number): Packed {
  const area = parts.reduce((sum, part) => sum + (part.width + gap) * (part.height + gap), 0);
  const widest = parts.reduce((most, part) => Math.max(most, part.width), 0);
  const wish = Math.sqrt(area * aspect);
  const tries = [0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5].map((by) =>
    inRows(parts, Math.max(widest, wish * by), gap),
  );
  // The one that is shown largest where `aspect` is the shape of the room.
  const room = (one: Packed): number =>
    Math.min(aspect / Math.max(1e-9, one.width), 1 / Math.max(1e-9, one.height));
  return tries.reduce((best, one) => (room(one) > room(best) * 1.001 ? one : best));
}

function inRows(parts: readonly Packed[], target: number, gap: number): Packed {
  const places: [Packed, number, number][] = [];
  let [atX, atY, high, width] = [0, 0, 0, 0];
  for (const part of parts) {
    if (atX > 0 && atX + part.width > target + 1e-6) {
      atY += high + gap;
      [atX, high] = [0, 0];
    }
    places.push([part, atX, atY]);
    width = Math.max(width, atX + part.width);
    atX += part.width + gap;
    high = Math.max(high, part.height);
  }
  return {
    width,
    height: atY + high,
    place: (x, y) => {
      for (const [part, partX, partY] of places) part.place(x + partX, y + partY);
    },
  };
}

/** Finds the tile at a point, and the next one in a direction: hosts by the unit cell they stand in. */
export class Finder {
  readonly #cells = new Map<number, number[]>();
  readonly #columns: number;

  constructor(readonly layout: Layout) {
    this.#columns = Math.ceil(layout.width) + 2;
    for (let host = 0; host < layout.x.length; host += 1) {
      const key = this.#key(layout.x[host] ?? NaN, layout.y[host] ?? NaN);
      if (Number.isNaN(key)) continue;
      const some = this.#cells.get(key);
      if (some) some.push(host);
      else this.#cells.set(key, [host]);
    }
  }

  #key(x: number, y: number): number {
    return Math.floor(y) * this.#columns + Math.floor(x);
  }

  /** The host whose tile covers a point; -1 if none. */
  at(x: number, y: number): number {
    for (const [cellX, cellY] of [
      [x, y],
      [x - 1, y],
      [x, y - 1],
      [x - 1, y - 1],
    ] as const) {
      for (const host of this.#cells.get(this.#key(cellX, cellY)) ?? []) {
        const [left, top] = [this.layout.x[host] ?? NaN, this.layout.y[host] ?? NaN];
        if (x >= left && x < left + 1 && y >= top && y < top + 1) return host;
      }
    }
    return -1;
  }

  /** The nearest tile in a direction, straight ahead before aside; itself if there is none. */
  next(from: number, dx: number, dy: number): number {
    const { x, y } = this.layout;
    const [fromX, fromY] = [x[from] ?? NaN, y[from] ?? NaN];
    let best = from;
    let least = Infinity;
    for (let host = 0; host < x.length; host += 1) {
      const ahead = ((x[host] ?? NaN) - fromX) * dx + ((y[host] ?? NaN) - fromY) * dy;
      const aside = Math.abs(((x[host] ?? NaN) - fromX) * dy) + Math.abs(((y[host] ?? NaN) - fromY) * dx);
      const far = ahead + aside * 3;
      if (ahead > 0.3 && far < least) [best, least] = [host, far];
    }
    return best;
  }
}
