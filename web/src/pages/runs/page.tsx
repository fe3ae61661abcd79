// The table of all runs, `/`: filters, order and columns are in the place; changes arrive by themselves.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { onChanges } from "../../api/live.ts";
import type { RunSummary } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Menu } from "../../parts/menu.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { type Selection, Table } from "../../parts/table.tsx";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { ACTS, ActDialog, type ActName } from "./actions.tsx";
import { COLUMNS, USUAL } from "./columns.tsx";
import { FilterBar, filtersOf } from "./filters.tsx";
import { RunSource } from "./source.ts";

const MOST_COMPARED = 100;

export function RunsPage(): JSX.Element {
  const values = query.value;
  const filters = filtersOf(values);
  const key = JSON.stringify(filters);
  const source = useMemo(() => new RunSource(filters, notifyFailure), [key]);
  useEffect(() => {
    const stop = onChanges((changes) => source.take(changes));
    return () => {
      stop();
      source.close();
    };
  }, [source]);
  useEffect(() => {
    document.title = "Runs · tarmac";
  }, []);

  const chosen = useSignal<ReadonlyMap<string, RunSummary>>(new Map());
  const [act, setAct] = useState<ActName | null>(null);
  const names = values.getAll("column");
  const shown = names.length > 0 ? names : USUAL;
  const columns = shown.flatMap((name) => COLUMNS[name] ?? []);
  return (
    <section class="page runs">
      <div class="bar">
        <h1>
          Runs <span class="quiet">{source.known ? count(source.total) : "…"}</span>
        </h1>
        <FilterBar />
        <ColumnMenu shown={shown} />
      </div>
      {chosen.value.size > 0 && (
        <div class="bar selected" role="toolbar" aria-label="Selected runs">
          <strong>{count(chosen.value.size)} selected</strong>
          <button
            type="button"
            class="button"
            disabled={chosen.value.size > MOST_COMPARED}
            onClick={() =>
              go(`/compare?${new URLSearchParams([...chosen.value.keys()].map((id) => ["run", id]))}`)
            }
          >
            Compare
          </button>
          {may("control") &&
            Object.entries(ACTS).map(([name, { verb }]) => (
              <button key={name} type="button" class="button" onClick={() => setAct(name as ActName)}>
                {verb}…
              </button>
            ))}
          <button type="button" class="quiet" onClick={() => (chosen.value = new Map())}>
            Select none
          </button>
        </div>
      )}
      <Table
        label="Runs"
        columns={columns}
        rows={source}
        keyOf={(run) => run.id}
        href={(run) => `/run/${run.id}`}
        open={go}
        sort={values.get("sort") ?? "-id"}
        onSort={(sort) => setQuery({ sort })}
        selection={selectionOf(source, chosen.value, (next) => (chosen.value = next))}
        empty={source.known ? <Empty /> : "Loading…"}
      />
      {act !== null && (
        <ActDialog name={act} runs={[...chosen.value.values()]} onClose={() => setAct(null)} />
      )}
    </section>
  );
}

type Chosen = ReadonlyMap<string, RunSummary>;

function selectionOf(source: RunSource, chosen: Chosen, set: (next: Chosen) => void): Selection<RunSummary> {
  return {
    has: (run) => chosen.has(run.id),
    toggle: (run) => {
      const next = new Map(chosen);
      if (!next.delete(run.id)) next.set(run.id, run);
      set(next);
    },
    range: (from, to) => {
      const next = new Map(chosen);
      for (let index = Math.min(from, to); index <= Math.max(from, to); index += 1) {
        const run = source.at(index);
        if (run) next.set(run.id, run);
      }
      set(next);
    },
    all: () => {
      source.all().then((runs) => set(new Map(runs.map((run) => [run.id, run]))), notifyFailure);
    },
    none: () => set(new Map()),
  };
}

function ColumnMenu({ shown }: { shown: string[] }): JSX.Element {
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

function Empty(): JSX.Element {
  return (
    <>
      <p>No run passes these filters.</p>
      <p class="quiet">
        <code>tarmac run --name hello -- echo hello</code> submits one.
      </p>
    </>
  );
}
