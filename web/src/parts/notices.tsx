// Short messages at the edge of the page: results of actions, and errors with their hints.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Refusal } from "../api/request.ts";

interface Notice {
  id: number;
  text: string;
  hint: string | null;
  failed: boolean;
}

const SHOWN_MS = 6_000;
const notices = signal<Notice[]>([]);
let count = 0;

/** Show a message for a while. */
function notify(text: string, { hint = null, failed = false }: Partial<Notice> = {}): void {
  const id = ++count;
  notices.value = [...notices.value, { id, text, hint, failed }];
  if (!failed) setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Show why something failed, until a person has read it. */
export function notifyFailure(problem: unknown): void {
  if (problem instanceof DOMException && problem.name === "AbortError") return;
  if (problem instanceof Refusal) notify(problem.message, { hint: problem.hint, failed: true });
  else notify(String(problem), { failed: true });
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function Notices(): JSX.Element {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map(({ id, text, hint, failed }) => (
        <div key={id} class={failed ? "notice failed" : "notice"}>
          <p>{text}</p>
          {hint && <p class="hint">{hint}</p>}
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
