// Colours of canvases: a scale from nothing to bad that reads in light and dark, hatching for what is not known.

export type Rgb = readonly [number, number, number];

/** `#2f6fdb` as numbers; anything else is grey. */
export function rgbOf(text: string): Rgb {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text.trim());
  if (!hex) return [128, 128, 128];
  return [1, 2, 3].map((at) => parseInt(hex[at] ?? "80", 16)) as unknown as Rgb;
}

export function cssOf([r, g, b]: Rgb): string {
  return `rgb(${r},${g},${b})`;
}

/** Between two colours; `share` 0 to 1. */
export function between(a: Rgb, b: Rgb, share: number): Rgb {
  const at = (i: 0 | 1 | 2): number => Math.round(a[i] + (b[i] - a[i]) * share);
  return [at(0), at(1), at(2)];
}

/** The colour of a share of the scale's end: quiet, then watch, then bad. Its lightness falls (in dark: rises) all the way,
 *  so it reads without colour too. */
export function heat(share: number, quiet: Rgb, watch: Rgb, bad: Rgb): Rgb {
  const held = Math.min(1, Math.max(0, share));
  return held < 0.5 ? between(quiet, watch, held * 2) : between(watch, bad, held * 2 - 1);
}

/** `n` shades of a colour that can be told apart beside each other: lighter and darker, a little to both sides in hue. */
export function shades(of: Rgb, n: number, dark: boolean): Rgb[] {
  const turns: Rgb[] = [
    [0, 0, 0],
    [-46, 40, -30],
    [60, -30, 20],
    [-30, -60, -90],
    [30, 50, 10],
    [90, 10, -20],
  ];
  return Array.from({ length: n }, (_, at) => {
    const turn = turns[at % turns.length] ?? [0, 0, 0];
    const lift = dark ? 10 : -10;
    return [0, 1, 2].map((i) =>
      Math.min(250, Math.max(10, of[i as 0 | 1 | 2] + turn[i as 0 | 1 | 2] + lift)),
    ) as unknown as Rgb;
  });
}

/** A pattern of thin diagonals: unknown. `scale` is that of the canvas to the screen. */
export function hatching(on: CanvasRenderingContext2D, colour: string, scale = 1): CanvasPattern | string {
  const tile = document.createElement("canvas");
  const size = Math.round(6 * scale);
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  if (!pen) return colour;
  pen.strokeStyle = colour;
  pen.lineWidth = Math.max(1, scale * 1.2);
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
  }
  pen.stroke();
  return on.createPattern(tile, "repeat") ?? colour;
}

/** A round number at or above a value: the end of a scale that people can read. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * (1 - 1e-9)) ?? 10) * power;
}
