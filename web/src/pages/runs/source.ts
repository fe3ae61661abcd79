// The runs of the table: read from the server a part at a time, and kept up with changes.

import { signal } from "@preact/signals";
import { ask, type QueryOf } from "../../api/request.ts";
import type { RunChanges, RunSummary, RunTable } from "../../api/types.ts";
import type { Rows } from "../../parts/table.tsx";
import { takeFirstRuns } from "../../state/session.ts";

export type Filters = QueryOf<"GET /tables/runs">;

const PART = 100;
const MOST = 10_000;
const REFRESH_MS = 1_000;

/** The runs that pass filters, in an order. `total` is null until the first answer. */
export class RunSource implements Rows<RunSummary> {
  readonly filters: Filters;
  readonly #total = signal<number | null>(null);
  readonly #revision = signal(0);
  #parts = new Map<number, RunSummary[]>();
  readonly #asked = new Set<number>();
  #stale = new Set<number>();
  #inView: [number, number] = [0, 0];
  #refreshAt = 0;
  #timer: number | undefined;
  readonly #leave = new AbortController();
  readonly #onFailure: (problem: unknown) => void;

  constructor(filters: Filters, onFailure: (problem: unknown) => void) {
    this.filters = filters;
    this.#onFailure = onFailure;
    const first = takeFirstRuns();
    if (first) this.#take(0, first);
    else void this.#read(0);
  }

  get known(): boolean {
    return this.#total.value !== null;
  }

  get total(): number {
    return this.#total.value ?? 0;
  }

  at(index: number): RunSummary | undefined {
    void this.#revision.value;
    return this.#parts.get(Math.floor(index / PART))?.[index % PART];
  }

  /** All runs that pass the filters, read for it. */
  async all(): Promise<RunSummary[]> {
    const found: RunSummary[] = [];
    for (let more = true; more; ) {
      const query = { ...this.filters, offset: found.length, limit: MOST };
      const { total, fields, rows } = await ask("GET /tables/runs", { query, signal: this.#leave.signal });
      found.push(...rows.map((row) => lineOf(fields, row)));
      more = rows.length > 0 && found.length < total;
    }
    return found;
  }

  view(first: number, end: number): void {
    this.#inView = [first, end];
    for (const part of this.#partsInView()) {
      if (!this.#parts.has(part) || this.#stale.has(part)) void this.#read(part);
    }
  }

  /** Show what has changed at once, and soon read what is in view again: the order may be another. */
  take(changes: RunChanges): void {
    const changed = new Map(
      changes.rows.map((row) => lineOf(changes.fields, row)).map((line) => [line.id, line]),
    );
    for (const [part, lines] of this.#parts) {
      if (lines.some(({ id }) => changed.has(id))) {
        this.#parts.set(
          part,
          lines.map((line) => changed.get(line.id) ?? line),
        );
      }
    }
    this.#revision.value += 1;
    this.refresh();
  }

  /** Read what is in view again, at most once a second. */
  refresh(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#refreshAt + REFRESH_MS - Date.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#refreshAt = Date.now();
      this.#stale = new Set(this.#parts.keys());
      const parts = this.#partsInView();
      for (const part of parts.length > 0 ? parts : [0]) void this.#read(part);
    }, wait);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#leave.abort();
  }

  #partsInView(): number[] {
    const [first, end] = this.#inView;
    const parts = [];
    for (let part = Math.floor(first / PART); part * PART < end; part += 1) parts.push(part);
    return parts;
  }

  async #read(part: number): Promise<void> {
    if (this.#asked.has(part)) return;
    this.#asked.add(part);
    this.#stale.delete(part);
    try {
      const query = { ...this.filters, offset: part * PART, limit: PART };
      this.#take(part, await ask("GET /tables/runs", { query, signal: this.#leave.signal }));
    } catch (problem) {
      this.#stale.add(part);
      this.#onFailure(problem);
    } finally {
      this.#asked.delete(part);
    }
  }

  #take(part: number, { total, fields, rows }: RunTable): void {
    const lines = rows.map((row) => lineOf(fields, row));
    this.#parts.set(part, lines);
    for (const each of this.#parts.keys()) if (each * PART >= total) this.#parts.delete(each);
    this.#total.value = total;
    this.#revision.value += 1;
  }
}

function lineOf(fields: string[], row: unknown[]): RunSummary {
  return Object.fromEntries(fields.map((name, index) => [name, row[index]])) as RunSummary;
}
