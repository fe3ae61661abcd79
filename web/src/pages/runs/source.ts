// The runs of the table: read from the server a part at a time, and kept up with changes.

import { ask, type QueryOf } from "../../api/request.ts";
import type { RunChanges, RunSummary, RunTable } from "../../api/types.ts";
import { takeFirstRuns } from "../../state/session.ts";
import { type Part, WindowRows } from "../../state/window.ts";

export type Filters = QueryOf<"GET /tables/runs">;

const MOST = 10_000;

/** The runs that pass filters, in an order. */
export class RunSource extends WindowRows<RunSummary> {
  readonly filters: Filters;

  constructor(filters: Filters, onFailure: (problem: unknown) => void) {
    const first = takeFirstRuns();
    super((offset, limit, signal) => read(filters, offset, limit, signal), onFailure, first && partOf(first));
    this.filters = filters;
  }

  /** All runs that pass the filters, read for it. */
  async all(): Promise<RunSummary[]> {
    const found: RunSummary[] = [];
    for (let more = true; more; ) {
      const { total, rows } = await read(this.filters, found.length, MOST, this.signal);
      found.push(...rows);
      more = rows.length > 0 && found.length < total;
    }
    return found;
  }

  /** Show what has changed at once, and soon read what is in view again: the order may be another. */
  take(changes: RunChanges): void {
    const changed = new Map(
      changes.rows.map((row) => lineOf(changes.fields, row)).map((line) => [line.id, line]),
    );
    this.change((line) => changed.get(line.id) ?? line);
    this.refresh();
  }
}

async function read(
  filters: Filters,
  offset: number,
  limit: number,
  signal: AbortSignal,
): Promise<Part<RunSummary>> {
  return partOf(await ask("GET /tables/runs", { query: { ...filters, offset, limit }, signal }));
}

function partOf({ total, fields, rows }: RunTable): Part<RunSummary> {
  return { total, rows: rows.map((row) => lineOf(fields, row)) };
}

function lineOf(fields: string[], row: unknown[]): RunSummary {
  return Object.fromEntries(fields.map((name, index) => [name, row[index]])) as RunSummary;
}
