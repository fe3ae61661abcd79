// Curves as numbers: metrics by name, the lines of a chart, and how lines are smoothed. No drawing.

import type { Attempt, MetricSeries, Run } from "../../api/types.ts";

export type Axis = "step" | "time";

/** A metric of a group, with its summary for each run that reported it. */
export interface Metric {
  key: string;
  group: string;
  name: string;
  /** The group, and the name before its first slash if several metrics share it. */
  section: string;
  series: ReadonlyMap<string, MetricSeries>;
}

/** The curve of a run. A value that cannot be drawn is null; those that are not finite are in `odd`. */
export interface Line {
  run: Run;
  xs: number[];
  ys: (number | null)[];
  odd: Mark[];
  total: number;
}

/** A text at a place of the axis. */
export interface Mark {
  x: number;
  text: string;
}

const COLOURS = 10;
const SIGNS: Record<string, string> = { nan: "×", inf: "▲", "-inf": "▼" };
/** The order of groups: the last is shown first. */
const GROUPS = ["validation", "training"];
/** The points over which smoothing is spread, whatever the range of the axis. */
const SMOOTHED_OVER = 1000;

export function keyOf({ group, name }: Pick<MetricSeries, "group" | "name">): string {
  return `${group}\n${name}`;
}

/** The metrics of summaries: training first, by section and name. */
export function metricsOf(summaries: MetricSeries[]): Metric[] {
  const found = [...Map.groupBy(summaries, keyOf)].map(([key, series]): Metric => {
    const [group = "", name = ""] = key.split("\n");
    const section = name.includes("/") ? `${group} / ${name.split("/")[0]}` : group;
    return { key, group, name, section, series: new Map(series.map((each) => [each.run, each])) };
  });
  for (const [metric, ...others] of Map.groupBy(found, ({ section }) => section).values())
    if (metric && others.length === 0) metric.section = metric.group;
  const rank = ({ group }: Metric) => GROUPS.indexOf(group);
  const { compare } = new Intl.Collator("en", { numeric: true });
  return found.sort(
    (one, other) =>
      rank(other) - rank(one) || compare(one.section, other.section) || compare(one.name, other.name),
  );
}

/** The metrics whose group and name contain every word of a text. */
export function matching(metrics: Metric[], text: string): Metric[] {
  const words = text.toLowerCase().split(" ");
  return metrics.filter(({ group, name }) =>
    words.every((word) => `${group}/${name}`.toLowerCase().includes(word)),
  );
}

/** The axis of a metric: a metric without steps has none but the time. */
export function axisOf(metric: Metric, axis: Axis): Axis {
  return [...metric.series.values()].some(({ last_step }) => last_step !== null) ? axis : "time";
}

/** The colour of a run by its place among the compared ones; after ten they repeat, dashed. */
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
  return runs.map((run) => {
    const points = curves.find((curve) => curve.run === run.id)?.points;
    const line: Line = { run, xs: [], ys: [], odd: [], total: points?.total ?? 0 };
    points?.values.forEach((value, at) => {
      const x = axis === "step" ? points.steps[at] : (points.times[at] ?? 0) - startOf(run);
      if (x === null || x === undefined || x === line.xs.at(-1)) return;
      line.xs.push(x);
      line.ys.push(typeof value === "number" && !(log && value <= 0) ? value : null);
      if (typeof value === "string") line.odd.push({ x, text: SIGNS[value] ?? value });
    });
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

/** Where the later attempts of a run begin on the axis of its curve. */
export function marksOf(attempts: Attempt[], curve: MetricSeries, axis: Axis, run: Run): Mark[] {
  return attempts.flatMap(({ number, started_at }) => {
    if (number === 1 || started_at === null) return [];
    const at = curve.points?.times.findIndex((time) => time >= started_at) ?? -1;
    const x = axis === "time" ? started_at - startOf(run) : curve.points?.steps[at];
    return x === null || x === undefined ? [] : [{ x, text: ` attempt ${number}` }];
  });
}
