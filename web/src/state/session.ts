// The caller and the server: from the document at first, then asked again after a login.

import { computed, signal } from "@preact/signals";
import { onChanges } from "../api/live.ts";
import { ask, onLoggedOut } from "../api/request.ts";
import type { Action, ErrorForm, PageFacts, RunTable } from "../api/types.ts";

interface First {
  page?: PageFacts;
  runs?: RunTable;
  error?: ErrorForm;
}

const first = JSON.parse(document.getElementById("first")?.textContent || "{}") as First;

let firstRuns = first.runs ?? null;

/** The first window of the table of runs, once, if the document came with it. */
export function takeFirstRuns(): RunTable | null {
  const found = firstRuns;
  firstRuns = null;
  return found;
}

export const page = signal<PageFacts | null>(first.page ?? null);

/** Why a link did not admit this browser. */
export const entryError = signal<ErrorForm | null>(first.error ?? null);

export const user = computed(() => page.value?.user ?? null);

/** Seconds by which the server's clock is ahead of the browser's. */
const clockLead = first.page ? first.page.now - Date.now() / 1000 : 0;

/** The server's time, which ages and durations count from: it moves once a second while the tab is visible. */
export const now = signal(Date.now() / 1000 + clockLead);

setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000 + clockLead;
}, 1000);

/** Whether a role of the user allows this action somewhere. */
export function may(action: Action): boolean {
  return page.value?.actions.includes(action) ?? false;
}

/** Whether the user may change the runs of this one. */
export function mayControl(owner: string): boolean {
  return may("control") && (owner === user.value || (page.value?.controls_others ?? false));
}

/** Ask again who the caller is. */
async function renew(): Promise<void> {
  page.value = await ask("GET /page");
}

/** Log in with a password. Raises Refusal. */
export async function logIn(name: string, password: string): Promise<void> {
  await ask("POST /session", { body: { user: name, password } });
  await renew();
}

/** End the session of this browser. */
export async function logOut(): Promise<void> {
  await ask("DELETE /session");
  await renew();
}

onChanges(({ paths }) => {
  if (paths.includes("/announcement")) void renew();
});

onLoggedOut(() => {
  if (page.peek()?.user) void renew();
});
