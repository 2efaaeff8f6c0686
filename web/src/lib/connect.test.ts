import { describe, expect, it } from "vitest";
import { agentCommand, isThisMachine } from "./connect";

describe("the command of an agent", () => {
  it("names the server as the page is reached, and a token where one is asked for", () => {
    expect(agentCommand("http://127.0.0.1:8440", false)).toBe(
      "leadline agent --server http://127.0.0.1:8440",
    );
    expect(agentCommand("https://leadline.example", true)).toBe(
      "leadline agent --server https://leadline.example --token-file FILE",
    );
  });
  it("knows the names of this machine", () => {
    expect(["localhost", "127.0.0.1", "[::1]"].every(isThisMachine)).toBe(true);
    expect(["leadline.example", "10.0.0.1", "localhost.example", "1127.0.0.1"].some(isThisMachine)).toBe(
      false,
    );
  });
});
