// Which cells of a grid stand under a pointer, which rows are shown where there are more than fit, how a cell is worded.

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** The cell at a point of a box of `rows` x `columns`; undefined outside. */
export function cellAt(x: number, y: number, box: Box, rows: number, columns: number): Cell | undefined {
  const column = Math.floor(((x - box.left) / box.width) * columns);
  const row = Math.floor(((y - box.top) / box.height) * rows);
  return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : undefined;
}

const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** Where a key moves the cursor; undefined for a key that does not. The first key puts it into the first cell. */
export function moved(at: Cell | undefined, key: string, rows: number, columns: number): Cell | undefined {
  const move = MOVES[key];
  if (!move || !rows || !columns) return undefined;
  if (!at) return { row: 0, column: key === "End" ? columns - 1 : 0 };
  return {
    row: Math.min(rows - 1, Math.max(0, at.row + move[0])),
    column: Math.min(columns - 1, Math.max(0, at.column + move[1])),
  };
}

/** Which labels can be written without touching: every so many of `count` rows, in a box of `height`. */
export function labelStep(count: number, height: number, lineHeight = 14): number {
  for (const step of [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 512, 1000])
    if ((height / count) * step >= lineHeight) return step;
  return count;
}

/** The largest cell, and how many are known. */
export function summary(values: readonly (readonly (number | null | undefined)[])[]): {
  known: number;
  cells: number;
  max: number;
  at: Cell | undefined;
} {
  let known = 0;
  let cells = 0;
  let max = -Infinity;
  let at: Cell | undefined;
  values.forEach((row, r) =>
    row.forEach((value, column) => {
      cells += 1;
      if (value === null || value === undefined || Number.isNaN(value)) return;
      known += 1;
      if (value > max) [max, at] = [value, { row: r, column }];
    }),
  );
  return { known, cells, max: at ? max : 0, at };
}
