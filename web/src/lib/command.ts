// Commands to copy: names come from telemetry, that is from anybody, and must stay one word of a shell.

/** A word as a shell takes it: plain ones as they are, others in quotes. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
