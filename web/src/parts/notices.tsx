// Messages at the edge of the page: why something failed, with its hint, until a person has read it.

import { signal } from "@preact/signals";
import { Refusal } from "../api/request.ts";
import { Button } from "./controls.tsx";

const notices = signal<{ text: string; hint: string | null }[]>([]);

export function notifyFailure(problem: unknown): void {
  if (problem instanceof DOMException && problem.name === "AbortError") return;
  const refused = problem instanceof Refusal;
  const notice = { text: refused ? problem.message : String(problem), hint: refused ? problem.hint : null };
  notices.value = [...notices.value, notice];
}

function dismiss(notice: (typeof notices.value)[number]): void {
  notices.value = notices.value.filter((each) => each !== notice);
}

export function Notices() {
  const shown = notices.value.map((notice, index) => (
    <div key={index} class="row notice failed">
      <p>
        {notice.text} <span class="hint">{notice.hint}</span>
      </p>
      <Button class="quiet bar-end" label="×" name="Dismiss" onClick={() => dismiss(notice)} />
    </div>
  ));
  return (
    <div class="notices" role="status" aria-live="polite">
      {shown}
    </div>
  );
}
