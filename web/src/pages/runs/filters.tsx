// What the table of runs shows: a search and filters, saved views of them, whose words it has, and which columns.

import { ask } from "../../api/request.ts";
import { Button, Choices, Input, Menu } from "../../parts/controls.tsx";
import { type Form, FormButton } from "../../parts/form.tsx";
import { Tab } from "../../parts/list.tsx";
import { Problem } from "../../parts/shown.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query, setQuery, toggled } from "../../state/place.ts";
import { page } from "../../state/session.ts";
import { COLUMNS } from "./columns.tsx";
import { type Filters, setFilters } from "./source.ts";

const FACETS = ["status", "user", "project", "mode", "cluster", "pool", "system"] as const;
const LISTS = [...FACETS, "label"] as const;
const FILTERS = [...LISTS, "text", "array", "scope"] as const;

/** The filters in the query of the place. */
export function filtersOf(values: URLSearchParams): Filters {
  const lists = Object.fromEntries(LISTS.map((name) => [name, values.getAll(name)]));
  const scope = values.get("scope") === "mine" ? { scope: "mine" as const } : {};
  return { ...lists, ...scope, text: values.get("text"), array: values.get("array"), as: values.get("as") };
}

export function FilterBar() {
  const values = query.value;
  const mine = values.get("scope") === "mine";
  const labels = values.getAll("label");
  const none = Object.fromEntries(FILTERS.map((name) => [name, null]));
  return (
    <search class="row filters">
      <Input type="search" name="text" label="Name or id of runs" placeholder="Name or id" set={setFilters} />
      <Button label="Mine" on={mine} onClick={() => setFilters({ scope: mine ? null : "mine" })} />
      {FACETS.map((name) => (
        <Facet key={name} name={name} />
      ))}
      {labels.map((label) => (
        <Button
          key={label}
          label={`${label} ×`}
          name={`Remove the filter ${label}`}
          on
          onClick={() => setFilters({ label: toggled(labels, label) })}
        />
      ))}
      {FILTERS.some((name) => values.has(name)) && (
        <Button class="quiet" label="Clear" onClick={() => setFilters(none)} />
      )}
    </search>
  );
}

type FacetName = (typeof FACETS)[number];

function Facet({ name }: { name: FacetName }) {
  const chosen = query.value.getAll(name);
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return (
    <Menu
      label={chosen.length === 0 ? title : `${title}: ${chosen.join(", ")}`}
      class={chosen.length > 0 ? "button toggle chosen" : "button toggle"}
      stays
    >
      <Counts name={name} />
    </Menu>
  );
}

/** The values of a field, with the number of runs that pass the other filters: counted when the menu opens. */
function Counts({ name }: { name: FacetName }) {
  const chosen = query.value.getAll(name);
  const others = { ...filtersOf(query.value), [name]: [], field: name };
  const { data, problem } = useAnswer("GET /tables/runs/counts", { query: others });
  if (problem) return <Problem problem={problem} />;
  if (!data) return <p class="menu-note">Counting…</p>;
  const counts = { ...Object.fromEntries(chosen.map((value) => [value, 0])), ...data };
  const found = Object.entries(counts).sort((one, other) => other[1] - one[1]);
  if (found.length === 0) return <p class="menu-note">No run has a value.</p>;
  const choices = found.map(([value, number]): [string, string, number] => [value, value, number]);
  return <Choices of={choices} chosen={chosen} onChoose={(next) => setFilters({ [name]: next })} />;
}

export function ViewMenu() {
  return (
    <Menu label="Views">
      <Views />
    </Menu>
  );
}

/** Links to the saved views, and changes of the one that is shown: filters, order and columns, but no selection. */
function Views() {
  const views = useAnswer("GET /views").data ?? [];
  const values = new URLSearchParams(query.value);
  for (const name of ["selected", "except"]) values.delete(name);
  const present = values.toString();
  const current = views.find((view) => view.query === present);
  const forms = current ? [rename(current.name, present), remove(current.name)] : [save(present)];
  return (
    <>
      {views.map(({ name, query }) => (
        <Tab key={name} href={`/?${query}`} on={name === current?.name}>
          {name}
        </Tab>
      ))}
      {forms.map((form) => (
        <FormButton key={form.verb} form={form} class="" />
      ))}
    </>
  );
}

const save = (query: string): Form => ({
  verb: "Save this view",
  text: "Filters, order and columns, under a name, for you alone. A view of the same name is replaced.",
  fields: [["name", "Name"]],
  send: ({ name = "" }) => ask("PUT /views", { body: { name, query } }),
});

const rename = (former: string, query: string): Form => ({
  verb: "Rename",
  title: `Rename ${former}`,
  fields: [["name", "Name", former]],
  send: async ({ name = "" }) => {
    await ask("PUT /views", { body: { name, query } });
    if (name !== former) await ask("DELETE /views", { query: { name: former } });
  },
});

const remove = (name: string): Form => ({
  verb: "Delete",
  title: `Delete the view ${name}`,
  destroys: true,
  send: () => ask("DELETE /views", { query: { name } }),
});

/** The words and columns: tarmac's own, or those of another system. */
export function SystemMenu() {
  const chosen = query.value.get("as");
  return (
    <Menu label={chosen ? `As ${chosen}` : "As"} class={chosen ? "button toggle chosen" : "button toggle"}>
      {[null, ...(page.value?.systems ?? [])].map((system) => (
        <Button
          key={system}
          class=""
          label={system ?? "tarmac"}
          on={system === chosen}
          onClick={() => setFilters({ as: system, status: null })}
        />
      ))}
    </Menu>
  );
}

export function ColumnMenu({ shown }: { shown: string[] }) {
  const all = Object.values(COLUMNS).map(({ id, title }): [string, string] => [id, title]);
  return (
    <Menu label="Columns" stays>
      <Choices of={all} chosen={shown} onChoose={(column) => setQuery({ column })} />
    </Menu>
  );
}
