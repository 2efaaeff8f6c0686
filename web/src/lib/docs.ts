// Pages of the docs, which the server has at /docs. Sentences of the API name them as files of the source code.

const NAMED = /docs\/([\w/-]+)\.md/;

export interface Piece {
  readonly text: string;
  readonly href?: string; // a page of the docs
  readonly code?: boolean; // a name or a command
}

/** A sentence in pieces: what stands in backticks, pages of the docs, and the rest. */
export function pieces(sentence: string): Piece[] {
  return sentence.split("`").flatMap((part, at) => (at % 2 ? [quoted(part)] : plain(part)));
}

function quoted(text: string): Piece {
  const [whole, name] = NAMED.exec(text) ?? [];
  return name !== undefined && whole === text ? page(name) : { text, code: true };
}

function plain(text: string): Piece[] {
  // With its group, `split` gives texts at even places and pages at odd ones.
  return text
    .split(new RegExp(NAMED, "g"))
    .map((part, at) => (at % 2 ? page(part) : { text: part }))
    .filter((piece) => piece.text !== "");
}

/** `how-to/send-sflow` reads "send sflow". */
function page(name: string): Piece {
  return { text: name.slice(name.lastIndexOf("/") + 1).replaceAll("-", " "), href: `/docs/${name}/` };
}
