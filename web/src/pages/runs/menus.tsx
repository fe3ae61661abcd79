// The menus beside the filters: saved views, whose words and columns the table has, and which columns.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { SavedView } from "../../api/types.ts";
import { type Form, FormButton, useForm } from "../../parts/form.tsx";
import { Menu } from "../../parts/menu.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query, setQuery } from "../../state/place.ts";
import { page } from "../../state/session.ts";
import { COLUMNS } from "./columns.tsx";
import { setFilters } from "./selection.ts";

/** The filters, order and columns of the place, without the selection. */
function presentView(): string {
  const values = new URLSearchParams(query.value);
  for (const name of ["selected", "except"]) values.delete(name);
  return values.toString();
}

export function ViewMenu(): JSX.Element {
  const { show, dialog } = useForm(() => undefined);
  return (
    <>
      <Menu label="Views">
        <Views show={show} />
      </Menu>
      {dialog}
    </>
  );
}

function Views({ show }: { show: (form: Form) => void }): JSX.Element {
  const views = useAnswer("GET /views").data ?? [];
  const present = presentView();
  const current = views.find((view) => view.query === present);
  const forms = current ? [rename(current), remove(current)] : [save(present)];
  return (
    <>
      {views.map(({ name, query }) => (
        <a key={name} href={`/?${query}`} aria-current={name === current?.name ? "true" : undefined}>
          {name}
        </a>
      ))}
      {forms.map((form) => (
        <FormButton key={form.verb} form={form} show={show} class="" />
      ))}
    </>
  );
}

function save(present: string): Form {
  return {
    verb: "Save this view",
    title: "Save this view",
    text: "Filters, order and columns, under a name, for you alone. A view of the same name is replaced.",
    fields: [["name", "Name"]],
    send: ({ name = "" }) => ask("PUT /views", { body: { name, query: present } }),
  };
}

function rename(view: SavedView): Form {
  return {
    verb: "Rename",
    title: `Rename ${view.name}`,
    fields: [["name", "Name", view.name]],
    send: async ({ name = "" }) => {
      await ask("PUT /views", { body: { ...view, name } });
      if (name !== view.name) await ask("DELETE /views", { query: { name: view.name } });
    },
  };
}

function remove({ name }: SavedView): Form {
  return {
    verb: "Delete",
    title: `Delete the view ${name}`,
    destroys: true,
    send: () => ask("DELETE /views", { query: { name } }),
  };
}

/** The words and columns: tarmac's own, or those of another system. */
export function SystemMenu(): JSX.Element {
  const chosen = query.value.get("as");
  return (
    <Menu label={chosen ? `As ${chosen}` : "As"} class={chosen ? "button toggle chosen" : "button toggle"}>
      {[null, ...(page.value?.systems ?? [])].map((system) => (
        <button
          key={system}
          type="button"
          aria-pressed={system === chosen}
          onClick={() => setFilters({ as: system, status: null })}
        >
          {system ?? "tarmac"}
        </button>
      ))}
    </Menu>
  );
}

export function ColumnMenu({ shown }: { shown: string[] }): JSX.Element {
  return (
    <Menu label="Columns" stays>
      {Object.values(COLUMNS).map(({ id, title }) => (
        <label key={id} class="choice">
          <input
            type="checkbox"
            checked={shown.includes(id)}
            onChange={() => {
              const next = shown.includes(id) ? shown.filter((each) => each !== id) : [...shown, id];
              setQuery({ column: next });
            }}
          />
          <span>{title}</span>
        </label>
      ))}
    </Menu>
  );
}
