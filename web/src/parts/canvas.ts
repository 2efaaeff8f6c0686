// A canvas that is as sharp as its screen, and drawn at most once a frame.

/** The size of a canvas on the screen and its pen, scaled so that drawing is in CSS pixels. */
export function penOf(
  canvas: HTMLCanvasElement,
): { pen: CanvasRenderingContext2D; width: number; height: number; scale: number } | undefined {
  const { clientWidth: width, clientHeight: height } = canvas;
  const pen = canvas.getContext("2d");
  if (!pen || !width || !height) return undefined;
  const scale = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height, scale };
}

/** An action: calls `resized` whenever the element's size changes. */
export function sized(element: HTMLElement, resized: () => void): { destroy: () => void } {
  const watch = new ResizeObserver(resized);
  watch.observe(element);
  return { destroy: () => watch.disconnect() };
}

/** Text cut to a width, with an ellipsis. */
export function fitted(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 0 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end > 0 ? `${text.slice(0, end)}…` : "";
}
