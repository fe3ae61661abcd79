// What the curves show: a search for metrics, the view, the axes, the range of the axis, and smoothing.

import type { JSX } from "preact";
import { query, setQuery } from "../../state/place.ts";
import type { Settings } from "./chart.tsx";

interface Props {
  settings: Settings;
  several: boolean;
  found: number;
}

export function Controls({ settings, several, found }: Props): JSX.Element {
  const { axis, range, log, smooth } = settings;
  const view = query.value.get("view") ?? "curves";
  const show = (name: string | null) => setQuery({ view: name, sort: null });
  const along = (name: string | null) => setQuery({ axis: name, from: null, to: null });
  return (
    <div class="bar">
      <search class="filters curve-controls">
        <Toggle text="Curves" on={view === "curves"} choose={() => show(null)} />
        <Toggle text="Table" on={view === "table"} choose={() => show("table")} />
        {several && <Toggle text="Parameters" on={view === "parameters"} choose={() => show("parameters")} />}
        {view !== "parameters" && (
          <input
            type="search"
            placeholder="Metric"
            aria-label="Names of metrics"
            value={query.value.get("text") ?? ""}
            onInput={({ currentTarget }) =>
              setQuery({ text: currentTarget.value || null }, { replace: true })
            }
          />
        )}
        {view !== "parameters" && (
          <span class="quiet" role="status">
            {found} {found === 1 ? "metric" : "metrics"}
          </span>
        )}
        {view === "curves" && (
          <>
            <Toggle text="Step" on={axis === "step"} choose={() => along(null)} />
            <Toggle text="Time" on={axis === "time"} choose={() => along("time")} />
            <Toggle text="Log" on={log} choose={() => setQuery({ log: log ? null : "1" })} />
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
            <Border name="from" label={axis === "step" ? "From step" : "From second"} value={range.from} />
            <Border name="to" label={axis === "step" ? "To step" : "To second"} value={range.to} />
            {(range.from !== null || range.to !== null) && (
              <button type="button" class="quiet" onClick={() => setQuery({ from: null, to: null })}>
                Whole range
              </button>
            )}
          </>
        )}
      </search>
    </div>
  );
}

function Toggle({ text, on, choose }: { text: string; on: boolean; choose: () => void }): JSX.Element {
  return (
    <button type="button" class="button toggle" aria-pressed={on} onClick={choose}>
      {text}
    </button>
  );
}

function Border({ name, label, value }: { name: string; label: string; value: number | null }): JSX.Element {
  return (
    <input
      type="number"
      step="any"
      placeholder={label}
      aria-label={label}
      value={value ?? ""}
      onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value || null })}
    />
  );
}
