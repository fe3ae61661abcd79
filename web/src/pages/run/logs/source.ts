// A part of one worker's log, read by offsets: grows at both ends as it is scrolled, and is cut where it is too long.

import { signal } from "@preact/signals";
import { ask, type QueryOf, Refusal } from "../../../api/request.ts";
import type { LogLine, LogWindow } from "../../../api/types.ts";

type LogQuery = QueryOf<"GET /runs/{run}/log-lines">;

/** Which of the logs of a run it is. */
export type LogPlace = Pick<LogWindow, "attempt" | "role" | "replica" | "worker">;

/** A place as values of a query. */
export function placeOf({ attempt, role, replica, worker }: LogPlace): Record<string, string> {
  return { attempt: String(attempt), role, replica: String(replica), worker: String(worker) };
}

const FIRST = 100;
const MORE = 500;
const MOST = 4_000;
const AGAIN_MS = 1_000;

/** Lines `start` to `next` of a log, and what was found out about it. Read `version` to draw again. */
export class LogSource {
  readonly version = signal(0);
  lines: LogLine[] = [];
  start = 0;
  next = 0;
  length = 0;
  worker: LogWindow | null = null; // the worker that writes the log; null before the first answer
  problem: Refusal | null = null;
  shift = 0; // lines added at the top, less those cut off there: the view moves by as many
  target: number | null = null; // the offset of a line to show, until the view has done so
  place = 0; // the offset of the first line in view
  ended = false; // whether the last line that exists was read
  busy = false;
  readonly #run: string;
  readonly #query: LogQuery;
  #leave = new AbortController();

  constructor(run: string, query: LogQuery) {
    this.#run = run;
    this.#query = query;
  }

  /** Read the lines around a byte, or the last ones. */
  open(at: number | null): Promise<void> {
    this.#leave.abort();
    this.#leave = new AbortController();
    this.busy = false;
    return this.#exclusively(async () => {
      const found = await this.#read(at === null ? { lines: FIRST } : { at, lines: MORE });
      const before = at === null ? null : await this.#read({ before: found.start, lines: FIRST });
      this.worker = found;
      this.lines = [...(before?.lines ?? []), ...found.lines];
      this.start = (before ?? found).start;
      this.next = found.next;
      this.length = found.length;
      this.ended = at === null || found.next >= found.length;
      this.target = at;
    });
  }

  /** Read lines before the first one. */
  older(): Promise<void> {
    if (this.start === 0 || this.problem) return Promise.resolve();
    return this.#exclusively(async () => {
      const { lines, start } = await this.#read({ before: this.start, lines: MORE });
      this.lines = [...lines, ...this.lines];
      this.start = start;
      this.shift += lines.length;
      if (this.lines.length > MOST) {
        this.next = this.lines[MOST]?.offset ?? this.next;
        this.lines = this.lines.slice(0, MOST);
        this.ended = false;
      }
    });
  }

  /** Read lines after the last complete one. `keep`: cut nothing off at the top. */
  newer({ keep = false } = {}): Promise<void> {
    if (keep && this.lines.length >= MOST) return Promise.resolve();
    return this.#exclusively(async () => {
      const found = await this.#read({ after: this.next, lines: MORE });
      const known = this.lines.findLastIndex(({ offset }) => offset < this.next) + 1;
      this.ended = found.next === this.next || found.next >= found.length;
      this.next = found.next;
      this.lines = [...this.lines.slice(0, known), ...found.lines];
      this.length = found.length;
      const spare = this.lines.length - MOST;
      if (spare > 0) {
        this.lines = this.lines.slice(spare);
        this.start = this.lines[0]?.offset ?? this.start;
        this.shift -= spare;
      }
    });
  }

  /** Read all lines that pass the filter, up to a limit, and later ones while `live`. */
  async readAll(live: boolean): Promise<void> {
    await this.open(null);
    const { signal: left } = this.#leave;
    while (this.start > 0 && !this.full && !this.problem && !left.aborted) await this.older();
    while (live && !this.full && !left.aborted) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      if (!document.hidden) await this.newer();
    }
  }

  /** Whether `readAll` has found as many lines as it may. */
  get full(): boolean {
    return this.lines.length + MORE > MOST;
  }

  close(): void {
    this.#leave.abort();
  }

  #read(part: LogQuery): Promise<LogWindow> {
    return ask("GET /runs/{run}/log-lines", {
      path: { run: this.#run },
      query: { ...this.#query, ...(this.worker && placeOf(this.worker)), ...part },
      signal: this.#leave.signal,
    });
  }

  /** One request at a time; a later `open` ends the present one. */
  async #exclusively(work: () => Promise<unknown>): Promise<void> {
    if (this.busy) return;
    const { signal: left } = this.#leave;
    this.busy = true;
    try {
      await work();
      this.problem = null;
    } catch (problem) {
      if (left.aborted) return;
      if (!(problem instanceof Refusal)) throw problem;
      this.problem = problem;
    } finally {
      if (!left.aborted) this.busy = false;
    }
    if (!left.aborted) this.version.value += 1;
  }
}
