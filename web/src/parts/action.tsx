// A dialog that sends a form: its fields, the command that does the same, and why the server refused it.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import { Command } from "./command.tsx";
import { Dialog } from "./dialog.tsx";

interface Props {
  title: string;
  verb: string;
  command: string | null;
  /** Do it; a Refusal keeps the dialog open. */
  send: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}

export function FormDialog({ title, verb, command, send, onClose, children }: Props): JSX.Element {
  const [problem, setProblem] = useState<Refusal | null>(null);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      await send();
      onClose();
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      setProblem(refusal);
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        {children}
        {command !== null && <Command text={command} />}
        {problem && (
          <p class="failed" role="alert">
            {problem.message} {problem.hint && <span class="hint">{problem.hint}</span>}
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary">
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
