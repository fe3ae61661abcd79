// The curves of runs: what they reported in all, and the points of the charts in view. While a run goes on, both are
// read again: curves at most once a second, and less often from a server that answers slowly.

import { type Signal, signal } from "@preact/signals";
import { ask, type QueryOf, Refusal } from "../../api/request.ts";
import type { MetricSeries } from "../../api/types.ts";
import { type Axis, axisOf, grouped, keyOf, type Metric, type Range } from "./points.ts";

const LIVE_MS = 1000;
const SUMMARY_MS = 5000;
/** The pause after an answer is at least this many times as long as it took. */
const REST = 4;
const GATHER_MS = 40;
const METRICS_AT_ONCE = 16;
const KEPT = 200;

/** The curves of a metric; `of` names the part of the axis that they are, "" before the first answer. */
interface Held {
  curves: Signal<MetricSeries[] | null>;
  of: string;
}

export class CurveSource {
  readonly summaries = signal<MetricSeries[] | null>(null);
  readonly problem = signal<Refusal | null>(null);
  readonly #runs: string[];
  readonly #held = new Map<string, Held>();
  readonly #inView = new Map<string, Metric>();
  readonly #leave = new AbortController();
  #live: string[] = [];
  #axis: Axis = "step";
  #range: Range = { from: null, to: null };
  /** Counts the ends of runs, after each of which all is read once more. */
  #round = 0;
  #summariesAt = 0;
  #timer: number | undefined;
  #busy = false;

  constructor(runs: string[]) {
    this.#runs = runs;
  }

  /** The curves of a metric, once they have been read. */
  curves(key: string): Signal<MetricSeries[] | null> {
    return this.#hold(key).curves;
  }

  /** Read a metric while it is in view; returns how to stop that. */
  view(metric: Metric): () => void {
    this.#inView.set(metric.key, metric);
    if (this.#hold(metric.key).of !== this.#partOf(metric)) this.#wake(GATHER_MS);
    return () => this.#inView.delete(metric.key);
  }

  /** Show a part of the axis, in as many points as the whole. `live` are the runs that go on. */
  show(axis: Axis, range: Range, live: string[]): void {
    if (this.#live.some((run) => !live.includes(run))) {
      this.#round += 1;
      this.#summariesAt = 0;
    }
    this.#live = live;
    this.#axis = axis;
    this.#range = range;
    this.#wake(0);
  }

  close(): void {
    this.#leave.abort();
    clearTimeout(this.#timer);
  }

  #hold(key: string): Held {
    const held = this.#held.get(key) ?? { curves: signal(null), of: "" };
    this.#held.set(key, held);
    return held;
  }

  #partOf(metric: Metric): string {
    const whole = axisOf(metric, this.#axis) !== this.#axis;
    const { from, to } = whole ? { from: null, to: null } : this.#range;
    return JSON.stringify([this.#axis, from, to, this.#round]);
  }

  #wake(wait: number): void {
    if (this.#busy || this.#leave.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#work(), wait);
  }

  async #work(): Promise<void> {
    this.#busy = true;
    const began = Date.now();
    const wait = document.hidden ? LIVE_MS : await this.#read();
    this.#busy = false;
    if (wait !== null) this.#wake(wait < LIVE_MS ? wait : Math.max(wait, REST * (Date.now() - began)));
  }

  /** Read what is missing first, then what goes on. Returns the pause after it; null: until something is shown. */
  async #read(): Promise<number | null> {
    const began = Date.now();
    if (this.#summariesAt === 0 || (this.#live.length > 0 && this.#summariesAt < began)) {
      const found = await this.#ask({ run: this.#runs });
      if (found === null) return SUMMARY_MS;
      this.summaries.value = found;
      const rest = found.length > 0 ? SUMMARY_MS : LIVE_MS;
      this.#summariesAt = Date.now() + Math.max(rest, REST * (Date.now() - began));
      return GATHER_MS;
    }
    const all = [...this.#inView.values()];
    const parts = grouped(all, (metric) => this.#partOf(metric));
    for (const [part, metrics] of parts) {
      const missing = metrics.filter(({ key }) => this.#hold(key).of !== part).slice(0, METRICS_AT_ONCE);
      if (missing.length > 0) return (await this.#take(missing, this.#runs, part)) ? GATHER_MS : SUMMARY_MS;
    }
    if (this.#live.length === 0) return null;
    for (const [part, metrics] of parts) {
      const live = metrics.filter(({ series }) => this.#live.some((run) => series.has(run)));
      if (live.length > 0) await this.#take(live, this.#live, part);
    }
    return LIVE_MS;
  }

  async #take(metrics: Metric[], runs: string[], part: string): Promise<boolean> {
    const [axis, from, to] = JSON.parse(part) as [Axis, number | null, number | null];
    const range =
      axis === "time"
        ? { first_s: from, last_s: to }
        : { first_step: from && Math.floor(from), last_step: to && Math.ceil(to) };
    const points = Math.round(Math.min(1000, Math.max(150, 4000 / this.#runs.length)));
    const name = [...new Set(metrics.map((metric) => metric.name))];
    const found = await this.#ask({ run: runs, name, points, ...range });
    if (found === null) return false;
    const byKey = grouped(found, keyOf);
    for (const { key } of metrics) {
      const held = this.#hold(key);
      const others = held.curves.value?.filter(({ run }) => !runs.includes(run)) ?? [];
      held.of = part;
      held.curves.value = [...(byKey.get(key) ?? []), ...others];
    }
    const away = [...this.#held.keys()].filter((key) => !this.#inView.has(key));
    for (const key of away.slice(0, this.#held.size - KEPT)) this.#held.delete(key);
    return true;
  }

  async #ask(query: QueryOf<"GET /metrics">): Promise<MetricSeries[] | null> {
    try {
      const found = await ask("GET /metrics", { query, signal: this.#leave.signal });
      this.problem.value = null;
      return found;
    } catch (problem) {
      if (problem instanceof Refusal) this.problem.value = problem;
      else if (!this.#leave.signal.aborted) throw problem;
      return null;
    }
  }
}
