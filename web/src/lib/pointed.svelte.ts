// The moment under the pointer, for all that has a time axis: plots and heat maps draw it together.

class Pointed {
  /** Null while the pointer is on none of them. */
  ns = $state<number | null>(null);
  /** Who says so; it does not follow itself. Plots count as one: they follow each other. */
  by = "";

  show(ns: number | null, by: string): void {
    this.by = by;
    this.ns = ns;
  }
}

export const pointed = new Pointed();
