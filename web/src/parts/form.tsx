// Changes as data: fields, a command and what sends them; shown in a dialog, one at a time.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { FormDialog } from "./action.tsx";

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
  return { show: setForm, dialog: form && <FieldsDialog form={form} onClose={close} /> };
}

export function FormButton(props: { form: Form; show: (form: Form) => void; class?: string }): JSX.Element {
  return (
    <button type="button" class={props.class ?? "button"} onClick={() => props.show(props.form)}>
      {props.form.verb}…
    </button>
  );
}

function FieldsDialog({ form, onClose }: { form: Form; onClose: () => void }): JSX.Element {
  const first = (form.fields ?? []).map(([name, , value]) => [
    name,
    typeof value === "object" ? value[0] : value,
  ]);
  const [values, setValues] = useState<Values>(
    Object.fromEntries(first.map(([name, value]) => [name, value ?? ""])),
  );
  return (
    <FormDialog
      title={form.title}
      verb={form.verb}
      command={form.command(values)}
      destroys={form.destroys ?? false}
      send={() => form.send(values)}
      onClose={onClose}
    >
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
    </FormDialog>
  );
}
