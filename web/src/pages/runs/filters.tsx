// The filters of the table of runs: a search, and a menu for each field with few different values.

import type { JSX } from "preact";
import { count } from "../../parts/amounts.ts";
import { Menu } from "../../parts/menu.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query } from "../../state/place.ts";
import { setFilters } from "./selection.ts";
import type { Filters } from "./source.ts";

const FACETS = ["status", "user", "project", "mode", "cluster", "pool", "system"] as const;
const LISTS = [...FACETS, "label"] as const;
const FILTERS = [...LISTS, "text", "array", "scope"] as const;

/** The filters in the query of the place. */
export function filtersOf(values: URLSearchParams): Filters {
  const lists = Object.fromEntries(LISTS.map((name) => [name, values.getAll(name)]));
  const scope = values.get("scope") === "mine" ? { scope: "mine" as const } : {};
  return { ...lists, ...scope, text: values.get("text"), array: values.get("array"), as: values.get("as") };
}

export function FilterBar(): JSX.Element {
  const values = query.value;
  const mine = values.get("scope") === "mine";
  const labels = values.getAll("label");
  return (
    <search class="filters">
      <input
        type="search"
        placeholder="Name or id"
        aria-label="Name or id of runs"
        value={values.get("text") ?? ""}
        onInput={({ currentTarget }) => setFilters({ text: currentTarget.value || null }, { replace: true })}
      />
      <button
        type="button"
        class="button toggle"
        aria-pressed={mine}
        onClick={() => setFilters({ scope: mine ? null : "mine" })}
      >
        Mine
      </button>
      {FACETS.map((name) => (
        <Facet key={name} name={name} />
      ))}
      {labels.map((label) => (
        <button
          key={label}
          type="button"
          class="button toggle"
          aria-pressed
          aria-label={`Remove the filter ${label}`}
          onClick={() => setFilters({ label: labels.filter((each) => each !== label) })}
        >
          {label} ×
        </button>
      ))}
      {FILTERS.some((name) => values.has(name)) && (
        <button
          type="button"
          class="quiet"
          onClick={() => setFilters(Object.fromEntries(FILTERS.map((name) => [name, null])))}
        >
          Clear
        </button>
      )}
    </search>
  );
}

type FacetName = (typeof FACETS)[number];

function Facet({ name }: { name: FacetName }): JSX.Element {
  const chosen = query.value.getAll(name);
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return (
    <Menu
      label={chosen.length === 0 ? title : `${title}: ${chosen.join(", ")}`}
      class={chosen.length > 0 ? "button toggle chosen" : "button toggle"}
      stays
    >
      <Choices name={name} chosen={chosen} />
    </Menu>
  );
}

/** The values of a field, with the number of runs that pass the other filters: counted when the menu opens. */
function Choices({ name, chosen }: { name: FacetName; chosen: string[] }): JSX.Element {
  const others = { ...filtersOf(query.value), [name]: [], field: name };
  const { data, problem } = useAnswer("GET /tables/runs/counts", { query: others });
  if (problem) return <Problem problem={problem} />;
  if (!data) return <p class="menu-note">Counting…</p>;
  const counts = { ...Object.fromEntries(chosen.map((value) => [value, 0])), ...data };
  const found = Object.entries(counts).sort((one, other) => other[1] - one[1]);
  if (found.length === 0) return <p class="menu-note">No run has a value.</p>;
  const toggle = (value: string) =>
    setFilters({
      [name]: chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value],
    });
  return (
    <>
      {found.map(([value, number]) => (
        <label key={value} class="choice">
          <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} />
          <span>{value}</span>
          <span class="quiet">{count(number)}</span>
        </label>
      ))}
    </>
  );
}
