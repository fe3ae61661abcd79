// The curves of one or several runs: a chart for each metric by section, or a table; what is shown is in the place.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Attempt, Run } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Problem } from "../../parts/problem.tsx";
import { query, setQuery } from "../../state/place.ts";
import { Chart, type Settings } from "./chart.tsx";
import { Controls } from "./controls.tsx";
import { Parameters } from "./parameters.tsx";
import { matching, metricsOf, type Range, sectionsOf } from "./points.ts";
import { RunList } from "./runs.tsx";
import { CurveSource } from "./source.ts";
import { SummaryTable } from "./summary.tsx";

interface Props {
  runs: Run[];
  attempts?: Attempt[];
}

const NO_ATTEMPTS: Attempt[] = [];

export function Curves({ runs, attempts = NO_ATTEMPTS }: Props): JSX.Element {
  const values = query.value;
  const settings = settingsOf(values);
  const ids = runs.map(({ id }) => id);
  const key = ids.join();
  const source = useMemo(() => new CurveSource(ids), [key]);
  useEffect(() => () => source.close(), [source]);
  const live = runs.filter(({ state }) => state !== "ended").map(({ id }) => id);
  const { axis, range } = settings;
  useEffect(() => source.show(axis, range, live), [source, axis, range.from, range.to, live.join()]);

  const summaries = source.summaries.value;
  const all = useMemo(() => metricsOf(summaries ?? []), [summaries]);
  const text = values.get("text") ?? "";
  const metrics = useMemo(() => matching(all, text), [all, text]);
  const view = values.get("view") ?? "curves";
  const problem = source.problem.value;
  const command = `tarmac metrics ${ids.join(" ")}`;
  return (
    <>
      <Controls settings={settings} several={runs.length > 1} found={metrics.length} />
      {runs.length > 1 && <RunList runs={runs} settings={settings} />}
      {problem && <Problem problem={problem} />}
      {view === "parameters" ? (
        <Parameters runs={runs} />
      ) : summaries?.length === 0 ? (
        <div class="message">
          <p>{runs.length > 1 ? "These runs have" : "This run has"} reported no metrics.</p>
          <p class="quiet">
            <code>tarmac.report(step=…, loss=…)</code> in the code of a run reports them.
          </p>
        </div>
      ) : view === "table" ? (
        <SummaryTable metrics={metrics} runs={runs} baseline={settings.baseline} />
      ) : (
        <div class="charts">
          {summaries === null && <p class="loading">Loading…</p>}
          {[...sectionsOf(metrics)].map(([section, found]) => (
            <details key={section} open>
              <summary>
                <h2>{section}</h2>
                <span class="quiet">{count(found.length)}</span>
              </summary>
              <div class="chart-grid">
                {found.map((metric) => (
                  <Chart
                    key={metric.key}
                    {...{ metric, runs, attempts, source, settings }}
                    onZoom={({ from, to }: Range) =>
                      setQuery({
                        from: from === null ? null : String(from),
                        to: to === null ? null : String(to),
                      })
                    }
                  />
                ))}
              </div>
            </details>
          ))}
          {summaries !== null && <Command text={command} />}
        </div>
      )}
    </>
  );
}

function settingsOf(values: URLSearchParams): Settings {
  const number = (name: string): number | null => {
    const text = values.get(name);
    return text === null || !Number.isFinite(Number(text)) ? null : Number(text);
  };
  return {
    axis: values.get("axis") === "time" ? "time" : "step",
    range: { from: number("from"), to: number("to") },
    log: values.has("log"),
    smooth: Math.min(0.99, Math.max(0, number("smooth") ?? 0)),
    baseline: values.get("baseline"),
    hidden: values.getAll("hide"),
  };
}
