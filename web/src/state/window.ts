// Rows of any number, read from the server a part at a time as they come into view.

import { signal } from "@preact/signals";
import { notifyFailure } from "../parts/notices.tsx";
import type { Rows } from "../parts/table.tsx";

export interface Part<Row> {
  total: number;
  rows: Row[];
}

export type ReadPart<Row> = (offset: number, limit: number, signal: AbortSignal) => Promise<Part<Row>>;

const PART = 100;
const REFRESH_MS = 1_000;

/** Rows in an order of the server. `known` is false until the first answer. */
export class WindowRows<Row> implements Rows<Row> {
  readonly #total = signal<number | null>(null);
  readonly #revision = signal(0);
  #parts = new Map<number, Row[]>();
  readonly #asked = new Set<number>();
  #stale = new Set<number>();
  #inView: [number, number] = [0, 0];
  #refreshAt = 0;
  #timer: number | undefined;
  readonly #leave = new AbortController();
  readonly #readPart: ReadPart<Row>;

  constructor(readPart: ReadPart<Row>, first: Part<Row> | null = null) {
    this.#readPart = readPart;
    if (first) this.#take(0, first);
    else void this.#read(0);
  }

  get known(): boolean {
    return this.#total.value !== null;
  }

  get total(): number {
    return this.#total.value ?? 0;
  }

  at(index: number): Row | undefined {
    void this.#revision.value;
    return this.#parts.get(Math.floor(index / PART))?.[index % PART];
  }

  view(first: number, end: number): void {
    this.#inView = [first, end];
    for (const part of partsOf(first, end)) {
      if (!this.#parts.has(part) || this.#stale.has(part)) void this.#read(part);
    }
  }

  /** Read the rows of a range that are not here yet. */
  async require(first: number, end: number): Promise<void> {
    const missing = partsOf(first, end).filter((part) => !this.#parts.has(part));
    await Promise.all(missing.map((part) => this.#read(part)));
  }

  /** Show other values of rows at once, in the same order. */
  change(changed: (row: Row) => Row): void {
    for (const [part, rows] of this.#parts) this.#parts.set(part, rows.map(changed));
    this.#revision.value += 1;
  }

  /** Read what is in view again, at most once a second. */
  refresh(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#refreshAt + REFRESH_MS - Date.now());
    this.#timer = setTimeout(() => void this.renew(), wait);
  }

  /** Read what is in view again, now. */
  async renew(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#refreshAt = Date.now();
    this.#stale = new Set(this.#parts.keys());
    const parts = partsOf(...this.#inView);
    await Promise.all((parts.length > 0 ? parts : [0]).map((part) => this.#read(part)));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#leave.abort();
  }

  async #read(part: number): Promise<void> {
    if (this.#asked.has(part)) return;
    this.#asked.add(part);
    this.#stale.delete(part);
    try {
      this.#take(part, await this.#readPart(part * PART, PART, this.#leave.signal));
    } catch (problem) {
      this.#stale.add(part);
      notifyFailure(problem);
    } finally {
      this.#asked.delete(part);
    }
  }

  #take(part: number, { total, rows }: Part<Row>): void {
    this.#parts.set(part, rows);
    for (const each of this.#parts.keys()) if (each * PART >= total) this.#parts.delete(each);
    this.#total.value = total;
    this.#revision.value += 1;
  }
}

function partsOf(first: number, end: number): number[] {
  const parts = [];
  for (let part = Math.floor(first / PART); part * PART < end; part += 1) parts.push(part);
  return parts;
}
