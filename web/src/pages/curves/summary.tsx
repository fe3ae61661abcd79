// The last, lowest and highest value of each metric and run, in any order.

import type { JSX } from "preact";
import type { MetricSeries, Run } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { sorted } from "../../parts/rows.ts";
import { type Column, column, Table } from "../../parts/table.tsx";
import { short } from "../../parts/values.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { keyOf, type Metric } from "./points.ts";

interface Props {
  metrics: Metric[];
  runs: Run[];
  baseline: string | null;
}

type Row = MetricSeries & { change: number | null };

export function SummaryTable({ metrics, runs, baseline }: Props): JSX.Element {
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
      open={go}
      sort={sort}
      onSort={(next) => setQuery({ sort: next })}
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

function Name(row: Row): JSX.Element {
  return (
    <a href={hrefOf(row)} tabIndex={-1} title={row.name}>
      {row.group !== "training" && <span class="quiet">{row.group}/</span>}
      {row.name}
    </a>
  );
}

function Last({ last }: Row): JSX.Element {
  return <span class={typeof last === "string" ? "failed" : ""}>{short(last)}</span>;
}

function percent(share: number | null): string {
  return share === null ? "" : `${share > 0 ? "+" : ""}${Number((share * 100).toPrecision(3))} %`;
}

function at(value: number | null, step: number | null): JSX.Element {
  return (
    <>
      {short(value)} {step !== null && <span class="quiet">@{count(step)}</span>}
    </>
  );
}

const GROWS = { grows: true };
const RIGHT = { right: true };

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
