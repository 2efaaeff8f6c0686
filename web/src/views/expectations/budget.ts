// What an error budget reads as: how much of it is left, and how fast it goes.

import type { components } from "../../api/schema";
import { duration, figures, percent } from "../../lib/units";

/** The share of good seconds; below 100 % it is never shown as 100 %. */
export function goodShare(sle: number | null): string {
  if (sle === null) return "unknown";
  if (sle >= 1) return "100 %";
  const size = sle * 100;
  const decimals = size > 99 ? Math.min(6, Math.max(2, Math.ceil(-Math.log10(100 - size) - 1e-6) + 1)) : 1;
  const text = size.toFixed(decimals);
  return `${Number(text) >= 100 ? (100 - 10 ** -decimals).toFixed(decimals) : text} %`;
}

/** `62 % of 36 s left`, `spent 3.1 times`. Null: an objective of 100 % has no budget. */
export function budget(left: number | null, budgetS: number): string {
  if (left === null) return "none: all is promised";
  if (left < 0) return `spent ${figures(1 - left)} times`;
  return `${percent(left)} of ${duration(budgetS)} left`;
}

/** `14×`, `0.4×`: how fast a budget goes; `-` where nothing is known. */
export function burnRate(value: number | null): string {
  if (value === null) return "-";
  return `${value >= 10 ? Math.round(value).toLocaleString("en-US") : value.toFixed(1)}×`;
}

type Held = Pick<components["schemas"]["SleHeld"], "state" | "sle" | "missing_s">;

export interface Parted<H> {
  readonly broken: H[];
  readonly strained: H[];
  readonly unknown: H[];
  readonly kept: H[];
}

/** What alarms; what lost or missed seconds within its budget; what nobody can say; what is all good. Each in its order. */
export function parted<H extends Held>(held: readonly H[]): Parted<H> {
  const found: Parted<H> = { broken: [], strained: [], unknown: [], kept: [] };
  for (const one of held) {
    if (one.state === "critical" || one.state === "warning") found.broken.push(one);
    else if (one.sle === null) found.unknown.push(one);
    else if (one.sle < 1 || one.missing_s > 0) found.strained.push(one);
    else found.kept.push(one);
  }
  return found;
}

/** The share of a bar for what is left, 0 to 1; spent budgets have none. */
export function barOf(left: number | null): number {
  return left === null ? 0 : Math.min(1, Math.max(0, left));
}
