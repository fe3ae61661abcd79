// The table of all runs, `/`: filters, order, columns and selection are in the place; changes arrive by themselves.

import { useEffect, useMemo } from "preact/hooks";
import { Button } from "../../parts/controls.tsx";
import { Page } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Table } from "../../parts/table.tsx";
import { count } from "../../parts/text.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { Acts } from "./actions.tsx";
import { COLUMNS, foreignColumn, USUAL } from "./columns.tsx";
import { ColumnMenu, FilterBar, filtersOf, SystemMenu, ViewMenu } from "./filters.tsx";
import { type Filters, NONE, openRuns, readSelected, selectedIn, selectionOf } from "./source.ts";

const MOST_COMPARED = 100;
const EMPTY = <p>No run passes these filters. tarmac run --name hello -- echo hello submits one.</p>;

export function RunsPage() {
  const values = query.value;
  const sort = values.get("sort") ?? "-id";
  const filters = filtersOf(values);
  const window: Filters = { ...filters, sort };
  const key = JSON.stringify(window);
  const source = useMemo(() => openRuns(window), [key]);
  useEffect(() => source.close, [source]);

  const names = values.getAll("column");
  const shown = names.length > 0 ? names : USUAL;
  const foreign = source.rows.known ? source.columns() : [];
  const columns =
    foreign.length > 0 ? foreign.map(foreignColumn) : shown.flatMap((name) => COLUMNS[name] ?? []);
  const bar = (
    <>
      <FilterBar />
      <ViewMenu />
      <SystemMenu />
      {!values.has("as") && <ColumnMenu shown={shown} />}
    </>
  );
  return (
    <Page title="Runs" sum={source.rows.known ? count(source.rows.total) : "…"} bar={bar}>
      <SelectedBar filters={filters} total={source.rows.total} />
      <Table
        label="Runs"
        columns={columns}
        rows={source.rows}
        href={(run) => `/run/${run.id}`}
        sort={sort}
        selection={selectionOf(source)}
        empty={source.rows.known ? EMPTY : "Loading…"}
      />
    </Page>
  );
}

/** What can be done with the selected runs, of which there may be any number. */
function SelectedBar({ filters, total }: { filters: Filters; total: number }) {
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
      <Button
        label="Compare"
        disabled={number === 0 || number > MOST_COMPARED}
        onClick={() => compare().catch(notifyFailure)}
      />
      {may("control") && <Acts runs={read} />}
      <Button class="quiet" label="Select none" onClick={() => setQuery(NONE, { replace: true })} />
    </div>
  );
}
