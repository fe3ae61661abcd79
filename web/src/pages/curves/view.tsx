// The curves of one or several runs: a chart for each metric by section, or a table; what is shown is in the place.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Attempt, Run } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Toggle } from "../../parts/toggle.tsx";
import { query, setQuery } from "../../state/place.ts";
import { Chart } from "./chart.tsx";
import { type Axis, matching, metricsOf } from "./points.ts";
import { Parameters, RunList } from "./runs.tsx";
import { CurveSource } from "./source.ts";
import { SummaryTable } from "./summary.tsx";

const NO_ATTEMPTS: Attempt[] = [];
const VIEWS = ["Curves", "Table", "Parameters"];

export type Settings = ReturnType<typeof settingsOf>;

export function Curves(props: { runs: Run[]; attempts?: Attempt[] | null }): JSX.Element {
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
        <search class="filters curve-controls">
          {VIEWS.slice(0, several ? 3 : 2).map((label) => {
            const change = { view: label.toLowerCase(), sort: null };
            return <Toggle key={label} label={label} on={view === change.view} change={change} />;
          })}
          {view !== "parameters" && (
            <>
              <input
                type="search"
                placeholder="Metric"
                aria-label="Names of metrics"
                value={text}
                onInput={({ currentTarget: { value } }) =>
                  setQuery({ text: value || null }, { replace: true })
                }
              />
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
        <div class="message">
          <p>{several ? "These runs have" : "This run has"} reported no metrics.</p>
          <p class="quiet">
            <code>tarmac.report(step=…, loss=…)</code> in the code of a run reports them.
          </p>
        </div>
      ) : view === "table" ? (
        <SummaryTable metrics={metrics} runs={runs} baseline={settings.baseline} />
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
          {summaries !== null && <Command text={`tarmac metrics ${ids.join(" ")}`} />}
        </div>
      )}
    </>
  );
}

/** The axes, the range of one of them, and smoothing. */
function Controls(settings: Settings): JSX.Element {
  const { axis, log, smooth, from, to } = settings;
  return (
    <>
      <Toggle label="Step" on={axis === "step"} change={{ axis: null, from: null, to: null }} />
      <Toggle label="Time" on={axis === "time"} change={{ axis: "time", from: null, to: null }} />
      <Toggle label="Log" on={log} change={{ log: log ? null : "1" }} />
      <label>
        Smoothing{" "}
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={smooth}
          onInput={({ currentTarget: { value } }) =>
            setQuery({ smooth: Number(value) > 0 ? value : null }, { replace: true })
          }
        />
        <output>{smooth > 0 ? smooth.toFixed(2) : "off"}</output>
      </label>
      {(["from", "to"] as const).map((name) => {
        const label = `${name === "from" ? "From" : "To"} ${axis === "step" ? "step" : "second"}`;
        return (
          <input
            key={name}
            type="number"
            step="any"
            placeholder={label}
            aria-label={label}
            value={settings[name] ?? ""}
            onInput={({ currentTarget: { value } }) => setQuery({ [name]: value || null }, { replace: true })}
          />
        );
      })}
      {(from !== null || to !== null) && (
        <button type="button" class="quiet" onClick={() => setQuery({ from: null, to: null })}>
          Whole range
        </button>
      )}
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
