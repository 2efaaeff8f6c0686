// Who this browser is to the server: nobody where it asks for no token, else the holder of the one that was pasted.

import { get, signedOut, signIn, signOut } from "./api";

class Session {
  /** Whether the server asks for tokens. */
  asks = $state(false);
  /** Whether one is needed now: there is none, or it has ended. */
  needed = $state(false);
  /** Name of the token; empty without one. */
  name = $state("");

  /** Look who we are. */
  async begin(): Promise<void> {
    signedOut.tell = () => {
      this.asks = true;
      this.needed = true;
    };
    try {
      const found = await get("/api/v1/session", {});
      this.asks = found.asks;
      this.name = found.name;
    } catch {
      // Without an answer the views say what is wrong; without a token `signedOut` was told.
    }
  }

  /** Take a token; the page begins anew. Errors: ApiError. */
  async take(token: string): Promise<void> {
    await signIn(token);
    location.reload();
  }

  /** Forget it. */
  async end(): Promise<void> {
    await signOut();
    location.reload();
  }
}

export const session = new Session();
