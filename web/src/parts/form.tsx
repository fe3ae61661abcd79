// Forms as data: text, fields, a command and what sends them; shown in a dialog, one at a time.

import { type ComponentChildren, isValidElement, type JSX } from "preact";
import { useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import type { ErrorForm } from "../api/types.ts";
import { Command } from "./command.tsx";
import { Dialog } from "./dialog.tsx";
import { Problem } from "./problem.tsx";

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
  title: string;
  text?: ComponentChildren;
  /** Its fields; a function gets the values that were changed. */
  fields?: Field[] | ((changed: Values) => Field[]);
  /** It destroys something. */
  destroys?: boolean;
  command?: (values: Values) => string | null;
  /** Make the change; a Refusal keeps the dialog open, and an element is shown before the dialog closes. */
  send?: (values: Values) => Promise<unknown>;
}

export const OPTIONAL = { required: false };

type Show = (form: Form) => void;

/** One form at a time: `show` opens it, and `dialog` has its place in the page. */
export function useForm(onDone: () => void): { show: Show; dialog: JSX.Element | null } {
  const [form, setForm] = useState<Form | null>(null);
  function close(): void {
    setForm(null);
    onDone();
  }
  const dialog = form && (
    <Dialog title={form.title} onClose={close}>
      <FormBody form={form} onClose={close} />
    </Dialog>
  );
  return { show: setForm, dialog };
}

export function FormButton(props: { form: Form; show: Show; class?: string }): JSX.Element {
  const { verb, label = verb } = props.form;
  return (
    <button type="button" class={props.class ?? "button"} onClick={() => props.show(props.form)}>
      {label}…
    </button>
  );
}

interface BodyProps {
  form: Form;
  /** Why the form is shown. */
  first?: ErrorForm | null;
  /** Without it, the form stays. */
  onClose?: () => void;
}

/** The fields of a form, its command, and its buttons. */
export function FormBody({ form, first = null, onClose }: BodyProps): JSX.Element {
  const [changed, setChanged] = useState<Values>({});
  const [problem, setProblem] = useState<ErrorForm | Refusal | null>(first);
  const [result, setResult] = useState<JSX.Element | null>(null);
  const [busy, setBusy] = useState(false);
  const fields = typeof form.fields === "function" ? form.fields(changed) : (form.fields ?? []);
  const values: Values = {
    ...Object.fromEntries(fields.map(([name, , value = ""]) => [name, value])),
    ...changed,
  };
  const command = form.command?.(values);
  const verb = result ? undefined : form.verb;
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      const found = await form.send?.(values);
      if (isValidElement(found)) setResult(found);
      else onClose?.();
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      setProblem(refusal);
    } finally {
      setBusy(false);
    }
  }
  const shown = (
    <>
      {form.text && <div>{form.text}</div>}
      {fields.map(fieldInput)}
      {command && <Command text={command} />}
      {problem && <Problem problem={problem} />}
    </>
  );
  return (
    <form
      class="form"
      onInput={({ currentTarget }) => setChanged(Object.fromEntries(new FormData(currentTarget)) as Values)}
      onSubmit={(event) => void submit(event)}
    >
      {result ?? shown}
      <div class="dialog-buttons">
        {onClose && (
          <button type="button" class="button" onClick={onClose}>
            {verb ? "Cancel" : "Close"}
          </button>
        )}
        {verb && (
          <button type="submit" class={`button ${form.destroys ? "danger" : "primary"}`} disabled={busy}>
            {verb}
          </button>
        )}
      </div>
    </form>
  );
}

function fieldInput([name, label, value, kind]: Field): JSX.Element {
  const id = `form-${name}`;
  const options = Array.isArray(kind) ? kind.map((each) => [each].flat()) : null;
  return (
    <label key={id} class="field" for={id}>
      <span>{label}</span>
      {options ? (
        <select id={id} name={name}>
          {options.map(([choice, text = choice]) => (
            <option key={choice} value={choice} selected={choice === value}>
              {text}
            </option>
          ))}
        </select>
      ) : kind === "long" ? (
        <textarea id={id} name={name} required defaultValue={value} />
      ) : (
        <input id={id} name={name} required defaultValue={value} {...(kind as object)} />
      )}
    </label>
  );
}
