// A dialog that sends a form: its fields, the command that does the same, and why the server refused it.

import { type ComponentChildren, isValidElement, type JSX, type VNode } from "preact";
import { useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import { Command } from "./command.tsx";
import { Dialog } from "./dialog.tsx";
import { Problem } from "./problem.tsx";

interface Props {
  title: string;
  verb: string;
  command: string | null;
  /** It destroys something. */
  destroys?: boolean;
  /** Do it; a Refusal keeps the dialog open. An element that it returns is shown before the dialog closes. */
  send: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}

export function FormDialog({ title, verb, command, destroys, send, onClose, children }: Props): JSX.Element {
  const [problem, setProblem] = useState<Refusal | null>(null);
  const [result, setResult] = useState<VNode | null>(null);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      const found = await send();
      if (isValidElement(found)) setResult(found);
      else onClose();
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      setProblem(refusal);
    }
  }
  const shown = (
    <>
      {children}
      {command !== null && <Command text={command} />}
      {problem && <Problem problem={problem} />}
    </>
  );
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        {result ?? shown}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={onClose}>
            {result ? "Close" : "Cancel"}
          </button>
          {!result && (
            <button type="submit" class={destroys ? "button danger" : "button primary"}>
              {verb}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
