// The form beside the editor: values that replace those of the file. An empty field leaves the file's value.

import type { JSX } from "preact";
import { PLAIN, type Values } from "./submission.ts";

interface Props {
  /** The values that an empty field leaves. */
  usual: Values;
  values: Values;
  onValue: (id: string, value: string) => void;
}

const GROUPS: Record<string, string> = { parameters: "Parameters", label: "Labels", env: "Variables" };

export function Form({ usual, values, onValue }: Props): JSX.Element {
  const ids = new Set([...PLAIN, ...Object.keys(usual), ...Object.keys(values)]);
  const groups = Map.groupBy(ids, (id) => GROUPS[id.replace(/\..*/, "")] ?? "Instead of the file's");
  return (
    <>
      {[...groups].map(([title, fields]) => (
        <fieldset key={title} class="note-form">
          <legend>{title}</legend>
          {fields.map((id) => (
            <label key={id} class="field">
              <span>{id.slice(id.indexOf(".") + 1)}</span>
              <input
                value={values[id] ?? ""}
                placeholder={usual[id] ?? ""}
                autocomplete="off"
                spellcheck={false}
                onInput={({ currentTarget }) => onValue(id, currentTarget.value)}
              />
            </label>
          ))}
        </fieldset>
      ))}
      <input
        aria-label="Another variable, NAME=VALUE"
        placeholder="Another variable: NAME=VALUE"
        onChange={({ currentTarget }) => {
          const [, name, value = ""] = /^(\w+)=(.+)$/.exec(currentTarget.value) ?? [];
          if (!name) return;
          onValue(`env.${name}`, value);
          currentTarget.value = "";
        }}
      />
    </>
  );
}
