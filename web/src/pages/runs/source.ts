// The runs of the table: read from the server a part at a time, and kept up with changes.

import { ask, type QueryOf } from "../../api/request.ts";
import type { RunChanges, RunColumn, RunSummary, RunTable } from "../../api/types.ts";
import { takeFirstRuns } from "../../state/session.ts";
import { type Part, WindowRows } from "../../state/window.ts";

export type Filters = QueryOf<"GET /tables/runs">;

/** A line of the table. `texts` are those of the columns of another system, if the runs are shown as there. */
export type Line = RunSummary & { texts: string[] };

/** The runs that pass filters, in an order. */
export class RunSource extends WindowRows<Line> {
  readonly #of: { columns: RunColumn[] };

  constructor(filters: Filters, onFailure: (problem: unknown) => void) {
    const of = { columns: [] as RunColumn[] };
    const part = (table: RunTable): Part<Line> => {
      of.columns = table.columns;
      return partOf(table);
    };
    const first = takeFirstRuns();
    super(
      async (offset, limit, signal) =>
        part(await ask("GET /tables/runs", { query: { ...filters, offset, limit }, signal })),
      onFailure,
      first && part(first),
    );
    this.#of = of;
  }

  /** The columns of another system, if the runs are shown as there. */
  get columns(): RunColumn[] {
    return this.#of.columns;
  }

  /** Show what has changed at once, and soon read what is in view again: the order may be another. */
  take(changes: RunChanges): void {
    const changed = new Map(
      changes.rows.map((row) => lineOf(changes.fields, row)).map((line) => [line.id, line]),
    );
    this.change((line) => ({ ...line, ...changed.get(line.id), texts: line.texts }));
    if (changes.rows.length > 0 || changes.more || changes.paths.includes("/runs")) this.refresh();
  }
}

export function partOf({ total, fields, rows }: RunTable): Part<Line> {
  return { total, rows: rows.map((row) => lineOf(fields, row)) };
}

function lineOf(fields: string[], row: unknown[]): Line {
  const values = Object.fromEntries(fields.map((name, index) => [name, row[index]]));
  return { ...values, texts: row.slice(fields.length) } as Line;
}
