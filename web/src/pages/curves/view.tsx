// The curves of one or several runs: a chart for each metric by section, or a table; what is shown is in the place.

import { useEffect, useMemo } from "preact/hooks";
import type { Attempt, MetricSeries, Run } from "../../api/types.ts";
import { Button, Input } from "../../parts/controls.tsx";
import { type Cell, Rows } from "../../parts/list.tsx";
import { sorted } from "../../parts/rows.ts";
import { Command, Problem, Status, statusOf } from "../../parts/shown.tsx";
import { type Column, column, GROWS, RIGHT, Table } from "../../parts/table.tsx";
import { count, differing, flat, short } from "../../parts/text.ts";
import { query, setQuery, toggled } from "../../state/place.ts";
import { Chart, hovered } from "./chart.tsx";
import { type Axis, curveColour, isDashed, keyOf, type Metric, matching, metricsOf } from "./points.ts";
import { CurveSource } from "./source.ts";

const NO_ATTEMPTS: Attempt[] = [];
const VIEWS = ["Curves", "Table", "Parameters"];
const WHOLE = { from: null, to: null };

export type Settings = ReturnType<typeof settingsOf>;

export function Curves(props: { runs: Run[]; attempts?: Attempt[] | null }) {
  const { runs } = props;
  const attempts = props.attempts ?? NO_ATTEMPTS;
  const settings = settingsOf(query.value);
  const ids = runs.map(({ id }) => id);
  const source = useMemo(() => new CurveSource(ids), [ids.join()]);
  useEffect(() => () => source.close(), [source]);
  const live = runs.filter(({ state }) => state !== "ended").map(({ id }) => id);
  const { view } = settings;
  useEffect(() => source.follow(live), [source, live.join()]);

  const summaries = source.summaries.value;
  const all = useMemo(() => metricsOf(summaries ?? []), [summaries]);
  const text = query.value.get("text") ?? "";
  const metrics = useMemo(() => matching(all, text), [all, text]);
  const problem = source.problem.value;
  const several = runs.length > 1;
  return (
    <>
      <div class="bar">
        <search class="row filters curve-controls">
          {VIEWS.slice(0, several ? 3 : 2).map((label) => {
            const change = { view: label.toLowerCase(), sort: null };
            return <Button key={label} label={label} on={view === change.view} change={change} />;
          })}
          {view !== "parameters" && (
            <>
              <Input type="search" name="text" label="Names of metrics" placeholder="Metric" />
              <span class="quiet" role="status">
                {metrics.length} {metrics.length === 1 ? "metric" : "metrics"}
              </span>
            </>
          )}
          {view === "curves" && <Controls {...settings} />}
        </search>
      </div>
      {several && <RunList runs={runs} settings={settings} />}
      {problem && <Problem problem={problem} />}
      {view === "parameters" ? (
        <Parameters runs={runs} />
      ) : summaries?.length === 0 ? (
        <p class="message">
          {several ? "These runs have" : "This run has"} reported no metrics.{" "}
          <code>tarmac.report(step=…, loss=…)</code> in the code of a run reports them.
        </p>
      ) : view === "table" ? (
        summaryTable(metrics, runs, settings.baseline)
      ) : (
        <div class="plots">
          {summaries === null && <p class="loading">Loading…</p>}
          {[...Map.groupBy(metrics, ({ section }) => section)].map(([section, found]) => (
            <details key={section} class="charts" open>
              <summary>
                <h2>{section}</h2>
                <span class="quiet">{count(found.length)}</span>
              </summary>
              <div class="plot-grid">
                {found.map((metric) => (
                  <Chart key={metric.key} {...{ metric, runs, attempts, source, settings }} />
                ))}
              </div>
            </details>
          ))}
          {summaries !== null && <Command of={["metrics", ...ids]} />}
        </div>
      )}
    </>
  );
}

/** The compared runs: their colours, one pinned as the baseline, some hidden. */
function RunList({ runs, settings }: { runs: Run[]; settings: Settings }) {
  const { baseline, hidden } = settings;
  const ids = query.value.getAll("run");
  return (
    <ul class="row wrap legend curve-runs" aria-label="Compared runs">
      {runs.map(({ id, name, state, outcome }, index) => (
        <li
          key={id}
          class="row"
          data-hovered={hovered.value === index ? "" : undefined}
          onPointerEnter={() => (hovered.value = index)}
          onPointerLeave={() => (hovered.value = null)}
        >
          <input
            type="checkbox"
            aria-label={`Show ${name}`}
            checked={!hidden.includes(id)}
            onChange={() => setQuery({ hide: toggled(hidden, id) })}
          />
          <span class={isDashed(index) ? "swatch dashed" : "swatch"} style={{ color: curveColour(index) }} />
          <a href={`/run/${id}`}>{name}</a>
          <Status value={statusOf({ state, outcome })} />
          <Button
            class="quiet"
            label={baseline === id ? <b>baseline</b> : "pin"}
            name={`pin ${name} as the baseline`}
            title="The baseline: the others are compared with it"
            on={baseline === id}
            change={{ baseline: baseline === id ? null : id }}
          />
          <Button
            class="quiet"
            label="×"
            name={`Remove ${name} from the comparison`}
            change={{ run: toggled(ids, id) }}
          />
        </li>
      ))}
    </ul>
  );
}

/** The parameters that differ between runs. */
function Parameters({ runs }: { runs: Run[] }) {
  const specs = runs.map(({ spec }) => flat(spec));
  const columns = runs.map(
    ({ id, name: title }, at): Cell<string> => [`${title} ${id}`, (name) => short(specs[at]?.[name])],
  );
  return (
    <section class="plots">
      <div class="plot-scroll">
        <Rows
          label="Parameters"
          rows={differing(specs)}
          columns={[["Parameter", (name) => name], ...columns]}
        />
      </div>
      {runs.length === 2 && <Command of={["diff", ...runs.map(({ id }) => id)]} />}
    </section>
  );
}

/** The axes, the range of one of them, and smoothing. */
function Controls({ axis, log, smooth, from, to }: Settings) {
  return (
    <>
      <Button label="Step" on={axis === "step"} change={{ axis: null, ...WHOLE }} />
      <Button label="Time" on={axis === "time"} change={{ axis: "time", ...WHOLE }} />
      <Button label="Log" on={log} change={{ log: log ? null : "1" }} />
      <label>
        Smoothing <Input type="range" name="smooth" label="Smoothing" usual="0" max="0.99" step="0.01" />
        <output>{smooth > 0 ? smooth.toFixed(2) : "off"}</output>
      </label>
      {["From", "To"].map((end) => {
        const label = `${end} ${axis === "step" ? "step" : "second"}`;
        const name = end.toLowerCase();
        return <Input key={name} type="number" step="any" name={name} label={label} placeholder={label} />;
      })}
      {(from !== null || to !== null) && <Button class="quiet" label="Whole range" change={WHOLE} />}
    </>
  );
}

function settingsOf(values: URLSearchParams) {
  const number = (name: string): number | null => {
    const found = Number.parseFloat(values.get(name) ?? "");
    return Number.isFinite(found) ? found : null;
  };
  const axis: Axis = values.get("axis") === "time" ? "time" : "step";
  return {
    axis,
    view: values.get("view") ?? "curves",
    from: number("from"),
    to: number("to"),
    log: values.has("log"),
    smooth: Math.min(0.99, Math.max(0, number("smooth") ?? 0)),
    baseline: values.get("baseline"),
    hidden: values.getAll("hide"),
  };
}

type Row = MetricSeries & { change: number | null };

/** The last, lowest and highest value of each metric and run, in any order. */
function summaryTable(metrics: Metric[], runs: Run[], baseline: string | null) {
  const rows = metrics.flatMap(({ series }) =>
    runs.flatMap(({ id }): Row[] => {
      const row = series.get(id);
      return row ? [{ ...row, change: changeOf(row, series.get(baseline ?? "")) }] : [];
    }),
  );
  const sort = query.value.get("sort") ?? "";
  const fieldOf = (row: Row, name: string) => {
    const value = row[name as keyof Row];
    return name === "last" && typeof value === "string" ? null : value;
  };
  return (
    <Table
      label="Last, lowest and highest values"
      columns={COLUMNS.filter(({ id }) =>
        id === "run_name" ? runs.length > 1 : id !== "change" || baseline !== null,
      )}
      rows={sorted(rows, sort, fieldOf)}
      keyOf={(row) => `${row.run}\n${keyOf(row)}`}
      href={hrefOf}
      sort={sort}
      empty="No metric has such a name."
    />
  );
}

/** The change of the last value against the baseline, as a share; null where there is none. */
function changeOf(row: MetricSeries, base: MetricSeries | undefined): number | null {
  const change = (Number(row.last) - Number(base?.last)) / Math.abs(Number(base?.last));
  return Number.isFinite(change) && row !== base ? change : null;
}

function hrefOf({ name }: Row): string {
  const kept = [...query.value].filter(([each]) => !["view", "sort", "text"].includes(each));
  return `?${new URLSearchParams([...kept, ["text", name]])}`;
}

function Name(row: Row) {
  return (
    <a href={hrefOf(row)} tabIndex={-1} title={row.name}>
      {row.group !== "training" && <span class="quiet">{row.group}/</span>}
      {row.name}
    </a>
  );
}

function Last({ last }: Row) {
  return <span class={typeof last === "string" ? "failed" : ""}>{short(last)}</span>;
}

function percent(share: number | null): string {
  return share === null ? "" : `${share > 0 ? "+" : ""}${Number((share * 100).toPrecision(3))} %`;
}

function at(value: number | null, step: number | null) {
  return (
    <>
      {short(value)} {step !== null && <span class="quiet">@{count(step)}</span>}
    </>
  );
}

const COLUMNS: Column<Row>[] = [
  column("metric", "Metric", 140, 0, Name, { grows: true, sort: "" }),
  column("run_name", "Run", 110, 1, (row) => <span title={row.run}>{row.run_name}</span>, GROWS),
  column("last", "Last", 100, 2, Last, RIGHT),
  column("change", "To baseline", 104, 3, ({ change }) => percent(change), RIGHT),
  column("low", "Lowest", 165, 4, (row) => at(row.low, row.low_step), RIGHT),
  column("high", "Highest", 165, 5, (row) => at(row.high, row.high_step), RIGHT),
  column("last_step", "Step", 90, 6, ({ last_step: step }) => step !== null && count(step), RIGHT),
  column("count", "Points", 90, 7, (row) => count(row.count), RIGHT),
];
