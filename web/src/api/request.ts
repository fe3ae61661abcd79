// Requests to the server, typed by its operations. Called by pages and state; errors are Refusals.

import type { ErrorForm, Operations, Problem } from "./types.ts";

export type Operation = keyof Operations;
export type Answer<K extends Operation> = Operations[K]["answer"];
export type QueryOf<K extends Operation> = Operations[K]["query"];

const BASE = "/api/v1";

/** An answer with an error, or none at all (status 0). */
export class Refusal extends Error {
  readonly status: number;
  readonly hint: string | null;
  readonly problems: Problem[];

  constructor(status: number, form: Pick<ErrorForm, "message" | "hint" | "problems">) {
    super(form.message);
    this.status = status;
    this.hint = form.hint;
    this.problems = form.problems;
  }
}

interface Details<K extends Operation> {
  /** The values of the names in braces in the path. */
  path?: Record<string, string>;
  query?: QueryOf<K>;
  body?: Operations[K]["body"];
  signal?: AbortSignal;
}

const refusedListeners = new Set<() => void>();

/** Call `listener` whenever a request is refused because its caller is not logged in. */
export function onLoggedOut(listener: () => void): void {
  refusedListeners.add(listener);
}

/** Send a request, and return its answer. Raises Refusal; an aborted one raises AbortError. */
export async function ask<K extends Operation>(operation: K, details: Details<K> = {}): Promise<Answer<K>> {
  const answer = await send(operation, details);
  return (await answer.json()) as Answer<K>;
}

/** Send a request, and return the bytes of its answer. Raises Refusal. */
export async function askBytes<K extends Operation>(operation: K, details: Details<K> = {}): Promise<Blob> {
  return (await send(operation, details)).blob();
}

/** The URL of an operation, for links to downloads. */
export function urlOf<K extends Operation>(
  operation: K,
  details: Pick<Details<K>, "path" | "query">,
): string {
  const path = operation.slice(operation.indexOf(" ") + 1);
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(details.path?.[name] ?? ""),
  );
  const query = queryText(details.query ?? {});
  return `${BASE}${filled}${query ? `?${query}` : ""}`;
}

/** The text of a query; lists repeat their name, and null and undefined are left out. */
function queryText(query: Record<string, unknown>): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined) pairs.append(name, String(each));
    }
  }
  return pairs.toString();
}

/** Send a request, and return the answer as it comes. Raises Refusal. */
async function send<K extends Operation>(operation: K, details: Details<K> = {}): Promise<Response> {
  const { body, signal } = details;
  const init: RequestInit = { method: operation.slice(0, operation.indexOf(" ")), signal: signal ?? null };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  let answer: Response;
  try {
    answer = await fetch(urlOf(operation, details), init);
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new Refusal(0, { message: "The server does not answer.", hint: null, problems: [] });
  }
  if (answer.ok) return answer;
  if (answer.status === 401) for (const listener of refusedListeners) listener();
  throw await refusal(answer);
}

async function refusal(answer: Response): Promise<Refusal> {
  try {
    const { error } = (await answer.json()) as { error: ErrorForm };
    return new Refusal(answer.status, error);
  } catch {
    const message = `The server answered ${answer.status} ${answer.statusText}.`;
    return new Refusal(answer.status, { message, hint: null, problems: [] });
  }
}
