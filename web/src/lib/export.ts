// What a table shows, as a file: CSV (RFC 4180) and JSON.

export type Cell = string | number | boolean | null | undefined;

/** Rows with a head line. Text that a spreadsheet would run as a formula is kept text by a leading apostrophe. */
export function csv(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function quoted(cell: Cell): string {
  if (cell === null || cell === undefined) return "";
  let text = String(cell);
  if (typeof cell === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The same as a list of objects. */
export function json(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return JSON.stringify(
    rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null]))),
    null,
    1,
  );
}

/** Hand a text to the reader as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
