// Curves as numbers: metrics by name, the lines of a chart, and how lines are smoothed. No drawing.

import type { Attempt, MetricSeries, Run } from "../../api/types.ts";

export type Axis = "step" | "time";

/** Borders of the axis; null is no border. */
export interface Range {
  from: number | null;
  to: number | null;
}

/** A metric of a group, with its summary for each run that reported it. */
export interface Metric {
  key: string;
  group: string;
  name: string;
  /** The group, and the name before its first slash if several metrics share it. */
  section: string;
  series: ReadonlyMap<string, MetricSeries>;
}

/** A line: the curve of one run. A value that cannot be drawn is null; those that are not finite are in `odd`. */
export interface Line {
  run: number;
  xs: number[];
  ys: (number | null)[];
  odd: { x: number; value: "nan" | "inf" | "-inf" }[];
  shown: number;
  total: number;
}

const COLOURS = 10;
const FIRST_GROUPS = ["training", "validation"];
/** The points over which smoothing is spread, whatever the range of the axis. */
const SMOOTHED_OVER = 1000;

export function keyOf({ group, name }: Pick<MetricSeries, "group" | "name">): string {
  return `${group}\n${name}`;
}

/** The metrics of summaries: training first, by section and name. */
export function metricsOf(summaries: MetricSeries[]): Metric[] {
  const found = new Map<string, Metric & { series: Map<string, MetricSeries> }>();
  for (const summary of summaries) {
    const { group, name } = summary;
    const key = keyOf(summary);
    const section = name.includes("/") ? `${group} / ${name.split("/")[0]}` : group;
    const metric = found.get(key) ?? { key, group, name, section, series: new Map() };
    found.set(key, metric);
    metric.series.set(summary.run, summary);
  }
  const sections = sectionsOf([...found.values()]);
  for (const metric of found.values()) {
    if (sections.get(metric.section)?.length === 1) metric.section = metric.group;
  }
  const rank = ({ group }: Metric) => (FIRST_GROUPS.includes(group) ? FIRST_GROUPS.indexOf(group) : 2);
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return [...found.values()].sort(
    (one, other) =>
      rank(one) - rank(other) || compare(one.section, other.section) || compare(one.name, other.name),
  );
}

/** The metrics whose group and name contain every word of a text. */
export function matching(metrics: Metric[], text: string): Metric[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return metrics.filter(({ group, name }) =>
    words.every((word) => `${group}/${name}`.toLowerCase().includes(word)),
  );
}

/** Metrics by section, in their order. */
export function sectionsOf(metrics: Metric[]): Map<string, Metric[]> {
  return grouped(metrics, ({ section }) => section);
}

/** Items by a key, in their order. */
export function grouped<Item>(items: Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const found = new Map<string, Item[]>();
  for (const item of items) {
    const list = found.get(keyOf(item));
    if (list) list.push(item);
    else found.set(keyOf(item), [item]);
  }
  return found;
}

/** The axis of a metric: a metric without steps has none but the time. */
export function axisOf(metric: Metric, axis: Axis): Axis {
  return [...metric.series.values()].some(({ last_step }) => last_step !== null) ? axis : "time";
}

/** The colour of a run by its place among the compared ones; after ten, they repeat, dashed. */
export function curveColour(run: number): string {
  return `var(--curve-${(run % COLOURS) + 1})`;
}

export function isDashed(run: number): boolean {
  return run >= COLOURS;
}

function startOf(run: Run): number {
  return run.started_at ?? run.created_at;
}

/** The lines of these curves, one for each run, in the order of `runs`. On a logarithmic axis, zero is not drawn. */
export function linesOf(curves: MetricSeries[], runs: Run[], axis: Axis, log: boolean): Line[] {
  return runs.map((run, index) => {
    const points = curves.find((curve) => curve.run === run.id)?.points;
    const line: Line = { run: index, xs: [], ys: [], odd: [], shown: 0, total: points?.total ?? 0 };
    points?.values.forEach((value, at) => {
      const x = axis === "step" ? points.steps[at] : (points.times[at] ?? 0) - startOf(run);
      if (x === null || x === undefined || x === line.xs.at(-1)) return;
      line.xs.push(x);
      line.ys.push(typeof value === "number" && !(log && value <= 0) ? value : null);
      if (typeof value === "string") line.odd.push({ x, value: value as Line["odd"][number]["value"] });
    });
    line.shown = line.xs.length;
    return line;
  });
}

/** The moving mean of a line, weighted by distance on the axis, so that thinned points count as far as they reach. */
export function smoothed({ xs, ys }: Pick<Line, "xs" | "ys">, weight: number): (number | null)[] {
  const span = (xs.at(-1) ?? 0) - (xs[0] ?? 0) || 1;
  let mean = 0;
  let trust = 0;
  let before = xs[0] ?? 0;
  return ys.map((y, at) => {
    if (y === null) return null;
    const x = xs[at] ?? 0;
    const kept = trust === 0 ? 0 : weight ** (((x - before) / span) * SMOOTHED_OVER);
    before = x;
    mean = mean * kept + y * (1 - kept);
    trust = trust * kept + (1 - kept);
    return mean / trust;
  });
}

/** Where the later attempts of a run begin on the axis of a line: the number and the place of each. */
export function attemptMarks(
  attempts: Attempt[],
  curve: MetricSeries | undefined,
  axis: Axis,
  run: Run,
): { number: number; x: number }[] {
  return attempts.flatMap(({ number, started_at }) => {
    if (number === 1 || started_at === null) return [];
    if (axis === "time") return [{ number, x: started_at - startOf(run) }];
    const at = curve?.points?.times.findIndex((time) => time >= started_at) ?? -1;
    const x = curve?.points?.steps[at] ?? null;
    return x === null ? [] : [{ number, x }];
  });
}

/** The values of a spec by the path to each, as text. */
export function flat(value: unknown, path = ""): [string, string][] {
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([name, each]) => flat(each, path ? `${path}.${name}` : name));
  }
  return [[path, typeof value === "string" ? value : JSON.stringify(value)]];
}

/** A number in five digits: 0.12345, 1.2e-7, 12,345. */
export function short(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2).replace("e+", "e");
  return value.toLocaleString("en", { maximumSignificantDigits: 5 });
}
