// The runs of the table, read from the server a part at a time and kept up with changes. And the selected ones, in the
// place: up to 200 by id, or all that match the filters, except some.

import { onChanges } from "../../api/live.ts";
import { ask, type QueryOf } from "../../api/request.ts";
import type { RunColumn, RunSummary, RunTable } from "../../api/types.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import type { Selection } from "../../parts/table.tsx";
import { type QueryChange, query, setQuery } from "../../state/place.ts";
import { takeFirstRuns } from "../../state/session.ts";
import { type Part, WindowRows } from "../../state/window.ts";

export type Filters = QueryOf<"GET /tables/runs">;

/** A line of the table. `texts` are those of the columns of another system, if the runs are shown as there. */
export type Line = RunSummary & { texts: string[] };

export type RunSource = ReturnType<typeof openRuns>;

/** The runs that pass filters, in an order. */
export function openRuns(filters: Filters) {
  let columns: RunColumn[] = []; // those of another system, if the runs are shown as there
  function part(table: RunTable): Part<Line> {
    columns = table.columns;
    return partOf(table);
  }
  const first = takeFirstRuns();
  const rows = new WindowRows<Line>(
    async (offset, limit, signal) =>
      part(await ask("GET /tables/runs", { query: { ...filters, offset, limit }, signal })),
    first && part(first),
  );
  // What has changed is shown at once, and what is in view soon read again: the order may be another.
  const stop = onChanges(({ fields, rows: lines, more, paths }) => {
    const changed = new Map(lines.map((line) => lineOf(fields, line)).map((line) => [line.id, line]));
    rows.change((line) => ({ ...line, ...changed.get(line.id), texts: line.texts }));
    if (lines.length > 0 || more || paths.includes("/runs")) rows.refresh();
  });
  function close(): void {
    stop();
    rows.close();
  }
  return { rows, close, columns: () => columns };
}

function partOf({ total, fields, rows }: RunTable): Part<Line> {
  return { total, rows: rows.map((row) => lineOf(fields, row)) };
}

function lineOf(fields: string[], row: unknown[]): Line {
  const values = Object.fromEntries(fields.map((name, index) => [name, row[index]]));
  return { ...values, texts: row.slice(fields.length) } as Line;
}

const MOST_IDS = 200;
const MOST_READ = 10_000;
const FIELDS = ["id", "name", "state", "outcome"] as const;

/** What is shown of a run before a command. */
export type NamedRun = Pick<RunSummary, (typeof FIELDS)[number]>;

/** `ids` are the selected runs, or with `all`, the exceptions. */
export interface Selected {
  all: boolean;
  ids: string[];
}

export function selectedIn(values: URLSearchParams): Selected {
  const ids = values.getAll("selected");
  return ids[0] === "all" ? { all: true, ids: values.getAll("except") } : { all: false, ids };
}

/** The change of the query that selects these runs. */
function selecting({ all, ids }: Selected): QueryChange {
  return { selected: all ? "all" : ids, except: all ? ids : null };
}

export const NONE = selecting({ all: false, ids: [] });

/** Change filters. A selection of all that match them ends, because others would match. */
export function setFilters(change: QueryChange, { replace = false } = {}): void {
  setQuery({ ...change, ...(selectedIn(query.peek()).all ? NONE : {}) }, { replace });
}

export function selectionOf({ rows }: RunSource): Selection<RunSummary> {
  const selected = selectedIn(query.value);
  const chosen = new Set(selected.ids);
  function set(ids: Set<string>, all = selectedIn(query.peek()).all): void {
    if (ids.size <= MOST_IDS) setQuery(selecting({ all, ids: [...ids] }), { replace: true });
    else refuse(all);
  }
  return {
    every: selected.all && chosen.size === 0,
    has: (run) => chosen.has(run.id) !== selected.all,
    toggle: (run) => {
      const ids = new Set(selectedIn(query.peek()).ids);
      if (!ids.delete(run.id)) ids.add(run.id);
      set(ids);
    },
    range: async (from, to) => {
      const [first, end] = [Math.min(from, to), Math.max(from, to) + 1];
      if (end - first > MOST_IDS) return refuse(selected.all);
      await rows.require(first, end);
      const { all, ids } = selectedIn(query.peek());
      const next = new Set(ids);
      for (let index = first; index < end; index += 1) {
        const run = rows.at(index);
        if (run) next[all ? "delete" : "add"](run.id);
      }
      set(next);
    },
    all: () => set(new Set(), true),
    none: () => set(new Set(), false),
  };
}

function refuse(all: boolean): void {
  const done = all ? "left out" : "selected";
  notifyFailure(`More than ${MOST_IDS} runs cannot be ${done} one by one: use the filters, and Ctrl A.`);
}

/** The selected runs that exist now, from the server: the ids that are sent later are those of this moment. */
export async function readSelected(filters: Filters, { all, ids }: Selected): Promise<NamedRun[]> {
  const found = new Map<string, NamedRun>();
  const chosen = { ...(all ? filters : { id: ids }), sort: "id", field: [...FIELDS], limit: MOST_READ };
  for (let offset = 0, total = 1; offset < total; offset += MOST_READ) {
    const part = partOf(await ask("GET /tables/runs", { query: { ...chosen, offset } }));
    for (const run of part.rows) found.set(run.id, run);
    total = part.total;
  }
  if (all) for (const id of ids) found.delete(id);
  return [...found.values()];
}
