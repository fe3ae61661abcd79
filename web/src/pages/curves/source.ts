// What the curves of runs are made of: a summary of each metric, and the points of those in view. While a run goes
// on, both are read again: points at most once a second, and less often from a server that answers slowly.

import { signal } from "@preact/signals";
import { ask, type QueryOf, Refusal } from "../../api/request.ts";
import type { MetricSeries } from "../../api/types.ts";
import { keyOf, type Metric } from "./points.ts";

const ROUND_MS = 1000;
/** Summaries are read once in so many rounds. */
const SUMMARY_ROUNDS = 5;
/** The pause after a round is at least this many times as long as it took. */
const REST = 4;
const GATHER_MS = 40;
const METRICS_AT_ONCE = 16;
const KEPT = 500;

/** The part of the axis that is read, as the server takes it. */
type Part = Pick<QueryOf<"GET /metrics">, "first_step" | "last_step" | "first_s" | "last_s">;

/** The curves of a metric; `of` names the round and the part that they are. */
interface Curves {
  curves: MetricSeries[];
  of: string;
}

export class CurveSource {
  readonly summaries = signal<MetricSeries[] | null>(null);
  /** Curves by the key of their metric, once they have been read. */
  readonly curves = signal<ReadonlyMap<string, Curves>>(new Map());
  readonly problem = signal<Refusal | null>(null);
  readonly #runs: string[];
  readonly #inView = new Map<string, { name: string; part: Part }>();
  readonly #leave = new AbortController();
  #live: string[] = [];
  #round = 0;
  /** The round in which summaries are read next. */
  #summaryRound = 0;
  #timer: number | undefined;
  #busy = false;

  constructor(runs: string[]) {
    this.#runs = runs;
  }

  /** Read a part of a metric while it is in view; returns how to stop that. */
  view({ key, name }: Metric, part: Part): () => void {
    this.#inView.set(key, { name, part });
    this.#wake(GATHER_MS);
    return () => this.#inView.delete(key);
  }

  /** The runs that go on. After the end of one, all is read again. */
  follow(live: string[]): void {
    if (this.#live.some((run) => !live.includes(run))) this.#round = this.#summaryRound += 1;
    this.#live = live;
    this.#wake(0);
  }

  close(): void {
    this.#leave.abort();
    clearTimeout(this.#timer);
  }

  #wake(wait: number, rounds = 0): void {
    clearTimeout(this.#timer);
    if (this.#busy || this.#leave.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#round += rounds;
      void this.#work();
    }, wait);
  }

  async #work(): Promise<void> {
    const began = Date.now();
    this.#busy = true;
    try {
      while (!document.hidden && (await this.#read())) this.problem.value = null;
    } catch (problem) {
      if (problem instanceof Refusal) this.problem.value = problem;
      else if (!this.#leave.signal.aborted) throw problem;
    }
    this.#busy = false;
    if (this.#live.length > 0 || document.hidden || this.problem.value)
      this.#wake(Math.max(ROUND_MS, REST * (Date.now() - began)), 1);
  }

  /** Read something that is missing; whether anything was. */
  async #read(): Promise<boolean> {
    if (this.#round >= this.#summaryRound) {
      const round = this.#round;
      const found = await this.#ask({});
      this.#summaryRound = Math.max(this.#summaryRound, round + (found.length > 0 ? SUMMARY_ROUNDS : 1));
      this.summaries.value = found;
      return true;
    }
    const known = this.curves.value;
    const ofPart = (part: Part) => JSON.stringify([this.#round, part]);
    const missing = [...this.#inView].filter(([key, { part }]) => known.get(key)?.of !== ofPart(part));
    const part = missing[0]?.[1].part;
    if (!part) return false;
    const of = ofPart(part);
    const chosen = missing.filter((each) => ofPart(each[1].part) === of).slice(0, METRICS_AT_ONCE);
    const name = [...new Set(chosen.map((each) => each[1].name))];
    const points = Math.round(Math.min(1000, Math.max(150, 4000 / this.#runs.length)));
    const byKey = Map.groupBy(await this.#ask({ name, points, ...part }), keyOf);
    const found = new Map(chosen.map(([key]) => [key, { of, curves: byKey.get(key) ?? [] }]));
    const others = [...known].filter(([key]) => !found.has(key));
    this.curves.value = new Map([...others, ...found].slice(-KEPT));
    return true;
  }

  #ask(query: Omit<QueryOf<"GET /metrics">, "run">): Promise<MetricSeries[]> {
    const asked = { query: { run: this.#runs, ...query }, signal: this.#leave.signal };
    return ask("GET /metrics", asked);
  }
}
