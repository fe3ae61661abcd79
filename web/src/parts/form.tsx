// Forms as data: text, fields, a command and what sends them; shown in a dialog over the page, one at a time.

import { signal } from "@preact/signals";
import { type ComponentChildren, isValidElement, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import type { ErrorForm } from "../api/types.ts";
import { renew } from "../state/answer.ts";
import { path } from "../state/place.ts";
import { Button } from "./controls.tsx";
import type { Words } from "./shell.ts";
import { Command, Problem } from "./shown.tsx";

export type Values = Record<string, string>;

/** A field: its name, its label, its first value, and its choices, the attributes of its input, or that it is long. */
export type Field = [
  name: string,
  label: string,
  value?: string,
  kind?: readonly (string | [value: string, text: string])[] | JSX.IntrinsicElements["input"] | "long",
];

/** A change that a person may make. */
export interface Form {
  /** What its button says. A form without one is only read. */
  verb?: string;
  /** What opens it says, if not the verb. */
  label?: string;
  /** What its dialog is named, if not as the verb. */
  title?: string;
  text?: ComponentChildren;
  /** Its fields; a function gets the values that were changed. */
  fields?: Field[] | ((changed: Values) => Field[]);
  /** It destroys something. */
  destroys?: boolean;
  command?: (values: Values) => Words | string | null;
  /** Make the change; a Refusal keeps the dialog open, and an element is shown before the dialog closes. */
  send?: (values: Values) => Promise<unknown>;
}

export const OPTIONAL = { required: false };

const shown = signal<(() => Form) | null>(null);

/** Show a form over the page; one that changes by itself is a function of signals. */
export function show(form: Form | (() => Form)): void {
  shown.value = typeof form === "function" ? form : () => form;
}

export function closeForm(): void {
  shown.value = null;
}

/** The form over the page, in the browser's own dialog, which keeps the focus inside and closes with Escape. */
export function ShownForm() {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), [shown.value]);
  useEffect(closeForm, [path.value]);
  const form = shown.value?.();
  if (!form) return null;
  const title = form.title ?? form.verb;
  return (
    <dialog ref={element} aria-label={title} onClose={closeForm}>
      <h2>{title}</h2>
      <FormBody form={form} onClose={closeForm} />
    </dialog>
  );
}

export function FormButton({ form, class: kind = "button" }: { form: Form; class?: string }) {
  return <Button class={kind} label={`${form.label ?? form.verb}…`} onClick={() => show(form)} />;
}

interface BodyProps {
  form: Form;
  /** Why the form is shown. */
  first?: ErrorForm | null;
  /** Without it, the form stays. */
  onClose?: () => void;
}

/** The fields of a form, its command, and its buttons. */
export function FormBody({ form, first = null, onClose }: BodyProps) {
  const [changed, setChanged] = useState<Values>({});
  const [problem, setProblem] = useState<ErrorForm | Refusal | null>(first);
  const [result, setResult] = useState<JSX.Element | null>(null);
  const [busy, setBusy] = useState(false);
  const fields = typeof form.fields === "function" ? form.fields(changed) : (form.fields ?? []);
  const usual = Object.fromEntries(fields.map(([name, , value = ""]) => [name, value]));
  const values: Values = { ...usual, ...changed };
  const command = form.command?.(values);
  const verb = result ? undefined : form.verb;
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      const found = await form.send?.(values);
      renew();
      if (isValidElement(found)) setResult(found);
      else onClose?.();
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      setProblem(refusal);
    } finally {
      setBusy(false);
    }
  }
  return (
    <form
      class="form"
      onInput={({ currentTarget }) => setChanged(Object.fromEntries(new FormData(currentTarget)) as Values)}
      onSubmit={submit}
    >
      {result ?? (
        <>
          {form.text && <div>{form.text}</div>}
          {fields.map(fieldInput)}
          {command && <Command of={command} />}
          {problem && <Problem problem={problem} />}
        </>
      )}
      <div class="row dialog-buttons">
        {onClose && <Button label={verb ? "Cancel" : "Close"} onClick={onClose} />}
        {verb && (
          <button type="submit" class={`button ${form.destroys ? "danger" : "primary"}`} disabled={busy}>
            {verb}
          </button>
        )}
      </div>
    </form>
  );
}

function fieldInput([name, label, value, kind]: Field) {
  const id = `form-${name}`;
  const named = { id, name, required: true, defaultValue: value };
  return (
    <label key={id} class="field" for={id}>
      <span>{label}</span>
      {Array.isArray(kind) ? (
        <select id={id} name={name}>
          {kind
            .map((each) => [each].flat())
            .map(([choice, text = choice]) => (
              <option key={choice} value={choice} selected={choice === value}>
                {text}
              </option>
            ))}
        </select>
      ) : kind === "long" ? (
        <textarea {...named} />
      ) : (
        <input {...named} {...(kind as object)} />
      )}
    </label>
  );
}
