// The command that connects a host's agent to the server whose page this is.

/** Whether a name in the page's address means the machine that the browser runs on. */
export function isThisMachine(name: string): boolean {
  return name === "localhost" || name === "[::1]" || /^127\./.test(name);
}

/** `asks`: whether the server asks for tokens. */
export function agentCommand(origin: string, asks: boolean): string {
  return `leadline agent --server ${origin}${asks ? " --token-file FILE" : ""}`;
}
