// A dialog for one change: its fields, its command, and the refusal if the server makes none.

import { isValidElement, type JSX, type VNode } from "preact";
import { useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import { Command } from "./command.tsx";
import { Dialog } from "./dialog.tsx";
import { Problem } from "./problem.tsx";

export type Values = Record<string, string>;

/** A field: its name, its label, its first value or its choices, and the type of its input. */
type Field = [
  name: string,
  label: string,
  value?: string | readonly string[],
  type?: "optional" | "password",
];

/** A change that a person may make. */
export interface Form {
  verb: string;
  title: string;
  text?: string;
  fields?: Field[];
  /** It destroys something. */
  destroys?: boolean;
  command: (values: Values) => string;
  /** Make the change; an element that it returns is shown before the dialog closes. */
  send: (values: Values) => Promise<unknown>;
}

/** One form at a time: `show` opens it, and `dialog` has its place in the page. */
export function useForm(onDone: () => void): { show: (form: Form) => void; dialog: JSX.Element | null } {
  const [form, setForm] = useState<Form | null>(null);
  function close(): void {
    setForm(null);
    onDone();
  }
  return { show: setForm, dialog: form && <FormDialog form={form} onClose={close} /> };
}

export function FormButton(props: { form: Form; show: (form: Form) => void; class?: string }): JSX.Element {
  return (
    <button type="button" class={props.class ?? "button"} onClick={() => props.show(props.form)}>
      {props.form.verb}…
    </button>
  );
}

function FormDialog({ form, onClose }: { form: Form; onClose: () => void }): JSX.Element {
  const first = (form.fields ?? []).map(([name, , value]) => [
    name,
    typeof value === "object" ? value[0] : value,
  ]);
  const [values, setValues] = useState<Values>(
    Object.fromEntries(first.map(([name, value]) => [name, value ?? ""])),
  );
  const [problem, setProblem] = useState<Refusal | null>(null);
  const [result, setResult] = useState<VNode | null>(null);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      const found = await form.send(values);
      if (isValidElement(found)) setResult(found);
      else onClose();
    } catch (failure) {
      if (!(failure instanceof Refusal)) throw failure;
      setProblem(failure);
    }
  }
  const shown = (
    <>
      {form.text && <p>{form.text}</p>}
      {form.fields?.map(([name, label, choices, type]) => {
        const onInput = (event: Event) =>
          setValues({ ...values, [name]: (event.target as HTMLInputElement | HTMLSelectElement).value });
        return (
          <label key={name} for={`form-${name}`}>
            {label}
            {typeof choices === "object" ? (
              <select id={`form-${name}`} onChange={onInput}>
                {choices.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            ) : (
              <input
                id={`form-${name}`}
                type={(type === "password" ? type : "text") as "text"}
                value={values[name]}
                required={!type}
                onInput={onInput}
              />
            )}
          </label>
        );
      })}
      <Command text={form.command(values)} />
      {problem && <Problem problem={problem} />}
    </>
  );
  return (
    <Dialog title={form.title} onClose={onClose}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        {result ?? shown}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={onClose}>
            {result ? "Close" : "Cancel"}
          </button>
          {!result && (
            <button type="submit" class={form.destroys ? "button danger" : "button primary"}>
              {form.verb}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
