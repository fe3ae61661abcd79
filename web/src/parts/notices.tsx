// Messages at the edge of the page: why something failed, with its hint, until a person has read it.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Refusal } from "../api/request.ts";

const notices = signal<{ text: string; hint: string | null }[]>([]);

export function notifyFailure(problem: unknown): void {
  if (problem instanceof DOMException && problem.name === "AbortError") return;
  const refused = problem instanceof Refusal;
  const notice = { text: refused ? problem.message : String(problem), hint: refused ? problem.hint : null };
  notices.value = [...notices.value, notice];
}

export function Notices(): JSX.Element {
  const shown = notices.value.map((notice, index) => (
    <div key={index} class="notice failed">
      <p>
        {notice.text} <span class="hint">{notice.hint}</span>
      </p>
      <button
        type="button"
        class="quiet bar-end"
        aria-label="Dismiss"
        onClick={() => (notices.value = notices.value.filter((each) => each !== notice))}
      >
        ×
      </button>
    </div>
  ));
  return (
    <div class="notices" role="status" aria-live="polite">
      {shown}
    </div>
  );
}
