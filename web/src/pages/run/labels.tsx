// Sets and removes labels of a run, in the words of `tarmac label`: KEY=VALUE, or KEY- to remove one.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import { Command } from "../../parts/command.tsx";
import { notifyFailure } from "../../parts/notices.tsx";

export function LabelForm({ run, onSet }: { run: string; onSet: () => void }): JSX.Element {
  const [text, setText] = useState("");
  async function set(event: Event): Promise<void> {
    event.preventDefault();
    const [, key = "", value] = /^([^=]+?)(?:=(.*)|-)$/.exec(text) ?? [];
    setText("");
    try {
      await ask("PATCH /runs/{run}/labels", { path: { run }, body: { labels: { [key]: value ?? null } } });
      onSet();
    } catch (problem) {
      setText(text);
      notifyFailure(problem);
    }
  }
  return (
    <form class="note-form" onSubmit={(event) => void set(event)}>
      <input
        aria-label="Label, KEY=VALUE, or KEY- to remove it"
        title="KEY=VALUE, or KEY- to remove it"
        placeholder="Label: KEY=VALUE, or KEY-"
        required
        pattern="[^=]+=.*|[^=]+-"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      {text && <Command text={`tarmac label ${run} ${text}`} />}
    </form>
  );
}
