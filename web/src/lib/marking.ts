// Saying what one thinks of a cause or an incident; the name is kept in this browser, so that it is typed once.

import { ApiError, post } from "./api";
import { keep, recall } from "./kept";
import type { Mark } from "./incidents";

const ACTOR = "leadline.actor";

/** Who marks, as this browser was told. */
export function actor(): string {
  return recall(ACTOR);
}

/** A name as the API takes it: letters, digits, `. _ @ -`. */
export function asActor(text: string): string {
  return text
    .trim()
    .replace(/\s+/g, "-")
    .replace(/[^A-Za-z0-9._@-]/g, "")
    .slice(0, 64);
}

export interface Saying {
  readonly incident: string;
  readonly mark: Mark["mark"];
  readonly entity?: string;
  readonly rule?: string;
  readonly reason?: string;
  readonly actor: string;
}

/** Say it. What went wrong, or undefined. */
export async function say(what: Saying): Promise<ApiError | undefined> {
  try {
    await post("/api/v1/marks", {
      ...what,
      reason: (what.reason ?? "").replace(/[\u0000-\u001f\u007f]+/g, " ").trim(),
    });
    keep(ACTOR, what.actor);
    return undefined;
  } catch (error) {
    return error instanceof ApiError ? error : new ApiError("broken", String(error), "POST /api/v1/marks");
  }
}
