// Requests to the server, typed by its operations. Called by pages and state; errors are Refusals.

import type { ErrorForm, Operations, Problem } from "./types.ts";

export type Operation = keyof Operations;
export type Answer<K extends Operation> = Operations[K]["answer"];
export type QueryOf<K extends Operation> = Operations[K]["query"];

const BASE = "/api/v1";

/** An answer with an error, or none at all. */
export class Refusal extends Error {
  readonly hint: string | null;
  readonly problems: Problem[];
  /** The status of the answer; 0 without one. */
  readonly status: number;

  constructor(error: Pick<ErrorForm, "message"> & Partial<ErrorForm>, status = 0) {
    const { message, hint = null, problems = [] } = error;
    super(message);
    this.status = status;
    this.hint = hint;
    this.problems = problems;
  }
}

export interface Details<K extends Operation> {
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

type Target<K extends Operation> = Pick<Details<K>, "path" | "query">;

/** The URL of an operation, for links to downloads. Lists repeat their name; null and undefined are left out. */
export function urlOf<K extends Operation>(operation: K, { path = {}, query = {} }: Target<K>): string {
  const [, template = ""] = operation.split(" ");
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ""));
  const pairs = Object.entries(query).flatMap(([name, value]: [string, unknown]) =>
    [value].flat().flatMap((each) => (each == null ? [] : [[name, String(each)]])),
  );
  return `${BASE}${filled}${pairs.length > 0 ? `?${new URLSearchParams(pairs)}` : ""}`;
}

/** Send a request, and return the answer as it comes. Raises Refusal. */
export async function send<K extends Operation>(operation: K, details: Details<K> = {}): Promise<Response> {
  const { body, signal } = details;
  const init: RequestInit = { method: operation.slice(0, operation.indexOf(" ")), signal: signal ?? null };
  if (body instanceof Blob) init.body = body;
  else if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  const answer = await fetch(urlOf(operation, details), init).catch((problem: Error) => {
    throw problem.name === "AbortError" ? problem : new Refusal({ message: "The server does not answer." });
  });
  if (answer.ok) return answer;
  if (answer.status === 401) for (const listener of refusedListeners) listener();
  const message = `The server answered ${answer.status} ${answer.statusText}.`;
  const { error } = await answer.json().catch(() => ({ error: { message } }));
  throw new Refusal(error, answer.status);
}
