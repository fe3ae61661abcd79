// The filters of the table of runs: a search, and a menu for each field with few different values.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import { count } from "../../parts/amounts.ts";
import { Menu } from "../../parts/menu.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { query, setQuery } from "../../state/place.ts";
import type { Filters } from "./source.ts";

const FACETS = ["status", "user", "project", "mode", "cluster", "pool", "system"] as const;
const LISTS = [...FACETS, "label"] as const;

type Counts = Record<string, Record<string, number>>;

/** The filters and the order in the query of the place. */
export function filtersOf(values: URLSearchParams): Filters {
  const lists = Object.fromEntries(LISTS.map((name) => [name, values.getAll(name)]));
  const text = values.get("text");
  const array = values.get("array");
  return {
    ...lists,
    ...(text === null ? {} : { text }),
    ...(array === null ? {} : { array }),
    ...(values.get("scope") === "mine" ? { scope: "mine" as const } : {}),
    sort: values.get("sort") ?? "-id",
  };
}

export function FilterBar(): JSX.Element {
  const [counts, setCounts] = useState<Counts>({});
  const values = query.value;
  function read(): void {
    ask("GET /tables/runs/counts").then(setCounts, notifyFailure);
  }
  useEffect(read, []);
  const set = [...FACETS, "label", "text", "array", "scope"].some((name) => values.has(name));
  return (
    <search class="filters">
      <input
        type="search"
        placeholder="Name or id"
        aria-label="Name or id of runs"
        value={values.get("text") ?? ""}
        onInput={({ currentTarget }) => setQuery({ text: currentTarget.value || null }, { replace: true })}
      />
      <button
        type="button"
        class="button toggle"
        aria-pressed={values.get("scope") === "mine"}
        onClick={() => setQuery({ scope: values.get("scope") === "mine" ? null : "mine" })}
      >
        Mine
      </button>
      {FACETS.map((name) => (
        <Facet key={name} name={name} counts={counts[name] ?? {}} onOpen={read} />
      ))}
      {values.getAll("label").map((label) => (
        <button
          key={label}
          type="button"
          class="button toggle"
          aria-pressed
          aria-label={`Remove the filter ${label}`}
          onClick={() => setQuery({ label: values.getAll("label").filter((each) => each !== label) })}
        >
          {label} ×
        </button>
      ))}
      {set && (
        <button
          type="button"
          class="quiet"
          onClick={() =>
            setQuery(Object.fromEntries([...LISTS, "text", "array", "scope"].map((name) => [name, null])))
          }
        >
          Clear
        </button>
      )}
    </search>
  );
}

interface FacetProps {
  name: string;
  counts: Record<string, number>;
  onOpen: () => void;
}

function Facet({ name, counts, onOpen }: FacetProps): JSX.Element | null {
  const chosen = query.value.getAll(name);
  const found = Object.entries(counts).sort((one, other) => other[1] - one[1]);
  if (found.length < 2 && chosen.length === 0) return null;
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  const label = chosen.length === 0 ? title : `${title}: ${chosen.join(", ")}`;
  function toggle(value: string): void {
    setQuery({
      [name]: chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value],
    });
  }
  return (
    <Menu
      label={label}
      class={chosen.length > 0 ? "button toggle chosen" : "button toggle"}
      stays
      onOpen={onOpen}
    >
      {found.map(([value, number]) => (
        <label key={value} class="choice">
          <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} />
          <span>{value}</span>
          <span class="quiet">{count(number)}</span>
        </label>
      ))}
    </Menu>
  );
}
