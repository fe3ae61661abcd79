// The form beside the editor: values that replace those of the file. An empty field leaves the file's value.

import type { JSX } from "preact";
import type { Artifact } from "../../api/types.ts";
import { time } from "../../parts/amounts.ts";
import { PLAIN, type Values } from "./submission.ts";

interface Props {
  /** The values that an empty field leaves. */
  usual: Values;
  values: Values;
  onValue: (id: string, value: string) => void;
}

const GROUPS = { parameters: "Parameters", label: "Labels", env: "Variables" };

export function Form({ usual, values, onValue }: Props): JSX.Element {
  const ids = [...new Set([...PLAIN, ...Object.keys(usual), ...Object.keys(values)])];
  const groups = Object.entries(GROUPS).map(([prefix, title]): [string, string[]] => [
    title,
    ids.filter((id) => id.startsWith(`${prefix}.`)),
  ]);
  return (
    <>
      {[["Instead of the file's", PLAIN] as [string, string[]], ...groups].map(
        ([title, fields]) =>
          fields.length > 0 && (
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
          ),
      )}
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

interface StartProps {
  from: string;
  onFrom: (from: string) => void;
  checkpoints: Artifact[];
}

export function Start({ from, onFrom, checkpoints }: StartProps): JSX.Element {
  const names: [string, string][] = [
    ["", "no checkpoint"],
    ["last", "its last checkpoint"],
    ...checkpoints.map(({ id, created_at }): [string, string] => [id, `${id}, ${time(created_at)}`]),
  ];
  if (!names.some(([id]) => id === from)) names.push([from, from]);
  return (
    <label class="field">
      <span>Begins with</span>
      <select value={from} onChange={({ currentTarget }) => onFrom(currentTarget.value)}>
        {names.map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
