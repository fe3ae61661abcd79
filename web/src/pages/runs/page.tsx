// The table of all runs, `/`: filters, order, columns and selection are in the place; changes arrive by themselves.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { onChanges } from "../../api/live.ts";
import { count } from "../../parts/amounts.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import { Table } from "../../parts/table.tsx";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { ACTS, ActDialog, type ActName } from "./actions.tsx";
import { COLUMNS, foreignColumn, USUAL } from "./columns.tsx";
import { FilterBar, filtersOf } from "./filters.tsx";
import { ColumnMenu, SystemMenu, ViewMenu } from "./menus.tsx";
import { NONE, readSelected, selectedIn, selectionOf } from "./selection.ts";
import { type Filters, RunSource } from "./source.ts";

const MOST_COMPARED = 100;

export function RunsPage(): JSX.Element {
  const values = query.value;
  const sort = values.get("sort") ?? "-id";
  const filters = filtersOf(values);
  const window: Filters = { ...filters, sort };
  const key = JSON.stringify(window);
  const source = useMemo(() => new RunSource(window, notifyFailure), [key]);
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

  const names = values.getAll("column");
  const shown = names.length > 0 ? names : USUAL;
  const foreign = source.known ? source.columns : [];
  const columns =
    foreign.length > 0 ? foreign.map(foreignColumn) : shown.flatMap((name) => COLUMNS[name] ?? []);
  return (
    <section class="page runs">
      <div class="bar">
        <h1>
          Runs <span class="quiet">{source.known ? count(source.total) : "…"}</span>
        </h1>
        <FilterBar />
        <ViewMenu />
        <SystemMenu />
        {!values.has("as") && <ColumnMenu shown={shown} />}
      </div>
      <SelectedBar filters={filters} total={source.total} />
      <Table
        label="Runs"
        columns={columns}
        rows={source}
        keyOf={(run) => run.id}
        href={(run) => `/run/${run.id}`}
        open={go}
        sort={sort}
        onSort={(next) => setQuery({ sort: next })}
        selection={selectionOf(source)}
        empty={source.known ? <Empty /> : "Loading…"}
      />
    </section>
  );
}

/** What can be done with the selected runs, of which there may be any number. */
function SelectedBar({ filters, total }: { filters: Filters; total: number }): JSX.Element | null {
  const [act, setAct] = useState<ActName | null>(null);
  const selected = selectedIn(query.value);
  const { all, ids } = selected;
  const number = all ? Math.max(0, total - ids.length) : ids.length;
  if (!all && number === 0) return null;
  const read = () => readSelected(filters, selected);
  async function compare(): Promise<void> {
    const runs = all ? (await read()).map(({ id }) => id) : ids;
    go(`/compare?${new URLSearchParams(runs.map((id) => ["run", id]))}`);
  }
  return (
    <div class="bar selected" role="toolbar" aria-label="Selected runs">
      <strong>{count(number)} selected</strong>
      {all && <span class="quiet">all that match{ids.length > 0 && `, except ${count(ids.length)}`}</span>}
      <button
        type="button"
        class="button"
        disabled={number === 0 || number > MOST_COMPARED}
        onClick={() => compare().catch(notifyFailure)}
      >
        Compare
      </button>
      {may("control") &&
        Object.entries(ACTS).map(([name, { verb }]) => (
          <button key={name} type="button" class="button" onClick={() => setAct(name as ActName)}>
            {verb}…
          </button>
        ))}
      <button type="button" class="quiet" onClick={() => setQuery(NONE, { replace: true })}>
        Select none
      </button>
      {act !== null && <ActDialog name={act} runs={read} onClose={() => setAct(null)} />}
    </div>
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
