// Metrics in sections, lines without values that cannot be drawn, and smoothing that knows distances.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricSeries, Run } from "../src/api/types.ts";
import { linesOf, matching, metricsOf, smoothed } from "../src/pages/curves/points.ts";

function series(name: string, given: Partial<MetricSeries> = {}): MetricSeries {
  const nothing = { low: null, low_step: null, high: null, high_step: null, points: null };
  return {
    ...{ run: "r1", run_name: "one", group: "training", name, rank: 0, count: 1 },
    ...{ last: 1, last_step: 1, last_at: 1 },
    ...nothing,
    ...given,
  };
}

test("training is first, and several metrics of one prefix are a section", () => {
  const names = ["gpu/1", "gpu/10", "gpu/2", "data/wait", "loss"];
  const metrics = metricsOf([series("loss", { group: "validation" }), ...names.map((name) => series(name))]);
  const sections = Map.groupBy(metrics, ({ section }) => section);
  const found = [...sections].map(([section, each]) => [section, each.map(({ name }) => name)]);
  assert.deepEqual(found, [
    ["training", ["data/wait", "loss"]],
    ["training / gpu", ["gpu/1", "gpu/2", "gpu/10"]],
    ["validation", ["loss"]],
  ]);
  assert.deepEqual(matching(metrics, "VALID loss").length, 1);
});

test("values that are not finite are marked, and zero has no place on a logarithmic axis", () => {
  const points = { steps: [0, 1, 2, 3], times: [10, 11, 12, 13], values: [0, "nan", "-inf", 2], total: 9 };
  const runs = [{ id: "r1", started_at: 10, created_at: 5 }, { id: "r2" }] as Run[];
  const [line, none] = linesOf([series("loss", { points })], runs, "time", true);
  assert.deepEqual(line?.xs, [0, 1, 2, 3]);
  assert.deepEqual(line?.ys, [null, null, null, 2]);
  assert.deepEqual(line?.odd, [
    { x: 1, text: "×" },
    { x: 2, text: "▼" },
  ]);
  assert.deepEqual([line?.total, none?.xs], [9, []]);
});

test("smoothing keeps a constant and gaps, and forgets over distance", () => {
  assert.deepEqual(smoothed({ xs: [0, 1, 2], ys: [3, null, 3] }, 0.9), [3, null, 3]);
  const [, near = 0] = smoothed({ xs: [0, 1, 1000], ys: [0, 1, 0] }, 0.9) as number[];
  const [, far = 0] = smoothed({ xs: [0, 500, 1000], ys: [0, 1, 0] }, 0.9) as number[];
  assert.ok(near < 0.6 && far > 0.99, `${near} ${far}`);
});
