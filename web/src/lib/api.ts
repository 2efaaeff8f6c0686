// Asking the API. Types come from its OpenAPI document; an error says what was asked, what came back, and what to do.

import type { paths } from "../api/schema";

type Get<P extends keyof paths> = paths[P] extends { get: infer G } ? G : never;
export type GetPath = { [P in keyof paths]: Get<P> extends never ? never : P }[keyof paths];
type Ok<G> = G extends { responses: { 200: { content: { "application/json": infer A } } } } ? A : never;

/** What a GET of this path answers. */
export type Answer<P extends GetPath> = Ok<Get<P>>;

type Part<G, K extends string> = G extends { parameters: infer A }
  ? K extends keyof A
    ? [NonNullable<A[K]>] extends [never]
      ? object
      : NonNullable<A[K]>
    : object
  : object;
type Named<A> = { [K in keyof A]: A[K] | undefined };

/** What a GET of this path may be asked with: parts of the path and of the query, as OpenAPI names them. */
export type ParamsOf<P extends GetPath> = Named<Part<Get<P>, "query"> & Part<Get<P>, "path">>;
type Params = Record<string, string | number | boolean | undefined>;

/** An answer that is not a success, or none at all. `reason` is a word of the API, or `unreachable`. */
export class ApiError extends Error {
  constructor(
    readonly reason: string,
    message: string,
    readonly asked: string,
    readonly status = 0,
  ) {
    super(message);
  }

  /** What somebody can do about it. */
  get todo(): string {
    if (this.message.includes("several clusters")) return "Choose a cluster above, next to the time span";
    switch (this.reason) {
      case "unreachable":
        return "See whether the server runs: leadline status";
      case "unauthorized":
        return "Sign in with a token; without tokens open the page by the name localhost or 127.0.0.1";
      case "forbidden":
        return "Sign in with a token whose role allows this";
      case "busy":
        return "Many queries run; this one is asked again in a second";
      case "store":
        return "See the store: leadline doctor";
      default:
        return this.status >= 500 ? "See the server's log: leadline doctor" : "Change what is asked for";
    }
  }
}

/** The address of a question: `{parts}` of the path filled from `params`, the rest as its query. */
export function address(path: string, params: Params = {}): string {
  const rest = new URLSearchParams();
  let filled = path;
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === "") continue;
    const part = `{${name}}`;
    if (filled.includes(part)) filled = filled.replace(part, encodeURIComponent(value));
    else rest.set(name, String(value));
  }
  const query = rest.toString();
  return query ? `${filled}?${query}` : filled;
}

/** GET. Errors: ApiError. */
export async function get<P extends GetPath>(
  path: P,
  params: ParamsOf<P>,
  signal?: AbortSignal,
): Promise<Answer<P>> {
  return (await sized(path, params, signal)).answer;
}

/** What an answer cost: how long its text is, how long the server took for it, and how long ago it began to. */
interface Cost {
  chars: number;
  tookMs: number; // 0: the server does not say
  ageMs: number | undefined; // undefined: it was made for this question
}

/** GET, and what the answer cost. One of this age (seconds) will do, if another page asked for it. Errors: ApiError. */
export async function sized<P extends GetPath>(
  path: P,
  params: ParamsOf<P>,
  signal?: AbortSignal,
  ageS = 0,
): Promise<Cost & { answer: Answer<P> }> {
  const headers = ageS ? { "cache-control": `max-age=${ageS}` } : undefined;
  const got = await ask(address(path, params as Params), {
    ...(signal ? { signal } : {}),
    ...(headers ? { headers } : {}),
  });
  return { ...got, answer: got.body as Answer<P> };
}

/** POST of a JSON body. Errors: ApiError. */
export async function post<A>(path: string, body: unknown): Promise<A> {
  const got = await ask(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
  return got.body as A;
}

/** Told when the server asks for a token; the page then shows where to give one. */
export const signedOut = { tell: (): void => undefined };

/** Sign in: the token is kept in a cookie that no script reads. Errors: ApiError. */
export async function signIn(token: string): Promise<void> {
  await post("/api/v1/session", { token });
}

/** Forget the token of this browser. Errors: ApiError. */
export async function signOut(): Promise<void> {
  await ask("/api/v1/session", { method: "DELETE" });
}

/** A duration of the header Server-Timing, ms. */
function timing(response: Response, name: string): number | undefined {
  const found = new RegExp(`${name};dur=(\\d+)`).exec(response.headers.get("server-timing") ?? "");
  return found ? Number(found[1]) : undefined;
}

async function ask(where: string, init: RequestInit): Promise<Cost & { body: unknown }> {
  const asked = `${init.method ?? "GET"} ${where}`;
  let response: Response;
  try {
    response = await fetch(where, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "no answer", asked);
  }
  if (response.status === 401 && response.headers.has("www-authenticate")) signedOut.tell();
  const text = await response.text();
  const body = parsed(text);
  if (response.ok && body !== undefined) {
    const tookMs = timing(response, "answer") ?? 0;
    return { body, chars: text.length, tookMs, ageMs: timing(response, "age") };
  }
  const problem = (body as { error?: { reason?: string; message?: string } } | undefined)?.error;
  const told = problem?.message ?? (text.slice(0, 200) || response.statusText);
  throw new ApiError(problem?.reason ?? "not_json", told, asked, response.status);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
