// Numbers as people read them: a value and its unit, three figures, nothing that was not measured.

const UNKNOWN = "unknown";

/** `12.4 GPU-h`, below an hour `41 GPU-s`: lost GPU time, as titles of incidents tell it. */
export function gpuTime(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 3600) return `${figures(seconds)} GPU-s`;
  return `${figures(seconds / 3600)} GPU-h`;
}

const ESTIMATE_TOLD = 0.05; // of a loss: less of it is no news

/** `so far, 3.2 GPU-s of it estimated`, where the ledger has not judged a good part of a loss yet; else empty. */
export function soFar(lost: number | null | undefined, estimated: number | null | undefined): string {
  if (!lost || !estimated || estimated < ESTIMATE_TOLD * lost) return "";
  if (estimated > (1 - ESTIMATE_TOLD) * lost) return "so far, estimated";
  return `so far, ${gpuTime(estimated)} of it estimated`;
}

/** `210 ms`, `1.3 s`, `4 min`, `2 h 5 min`: a duration in seconds. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return UNKNOWN;
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${figures(seconds * 1e9)} ns`;
  if (size < 1e-3) return `${figures(seconds * 1e6)} µs`;
  if (size < 1) return `${figures(seconds * 1e3)} ms`;
  if (size < 120) return `${figures(seconds)} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  if (size < 172_800) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  return `${Math.round(seconds / 86_400)} d`;
}

/** `81 %`, `0.4 %`: a share of one. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || Number.isNaN(share)) return UNKNOWN;
  const size = share * 100;
  return `${size >= 10 || size === 0 ? size.toFixed(0) : size.toPrecision(2)} %`;
}

/** A probability, `0.96`; never 1.00 for what is not certain. */
export function probability(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value > 0 && value < 0.005) return "<0.01";
  return value < 1 ? Math.min(value, 0.99).toFixed(2) : "1";
}

const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];

/** `1.2 GB`: bytes in powers of 1,000, as links and disks are sold. */
export function bytes(amount: number | null | undefined): string {
  if (amount === null || amount === undefined) return UNKNOWN;
  const [value, unit] = scaled(amount, SIZES);
  return `${figures(value)} ${unit}`;
}

/** `39.8 Gbit/s` of bytes per second. */
export function bitRate(bytesPerSecond: number | null | undefined): string {
  if (bytesPerSecond === null || bytesPerSecond === undefined) return UNKNOWN;
  const [value, unit] = scaled(bytesPerSecond * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
  return `${figures(value)} ${unit}`;
}

/** `18,204`: whole numbers, thousands apart. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined
    ? UNKNOWN
    : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** Three significant figures, no exponent: `0.0123`, `12.3`, `1,230`. */
export function figures(value: number): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  const decimals = Math.min(20, Math.max(0, 2 - Math.floor(Math.log10(size))));
  const text = value.toFixed(decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** What a metric of this unit (UCUM, as OpenTelemetry writes them) reads as; also `ratio` and `B/s`, bytes a second. */
export function inUnit(value: number, unit: string): string {
  if (unit === "s") return duration(value);
  if (unit === "ratio" || unit === "s/s") return percent(value); // a share of the time, too
  if (unit === "ns/s") return percent(value / 1e9);
  if (unit === "B/s") return `${bytes(value)}/s`;
  if (unit === "By") return bytes(value);
  if (unit === "By/s") return bitRate(value);
  if (unit === "1") return figures(value);
  if (unit === "Cel") return `${figures(value)} °C`;
  const [what, per] = unit.split("/");
  const counted = (what ?? "").replace(/^1$|[{}]/g, ""); // `{packet}/s`, `1/s`, `/min`
  if (per) return `${figures(value)}${counted ? ` ${counted}` : ""}/${per}`;
  return counted ? `${figures(value)} ${counted}` : figures(value);
}

function scaled(amount: number, units: readonly string[]): [number, string] {
  let at = 0;
  let value = amount;
  while (Math.abs(value) >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return [value, units[at] ?? ""];
}
