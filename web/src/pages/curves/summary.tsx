// The last, lowest and highest value of each metric and run, in any order.

import type { JSX } from "preact";
import type { MetricSeries, Run } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { type Column, type Rows, Table } from "../../parts/table.tsx";
import { go, query, setQuery } from "../../state/place.ts";
import { keyOf, type Metric, short } from "./points.ts";

interface Props {
  metrics: Metric[];
  runs: Run[];
  baseline: string | null;
}

type Row = MetricSeries & { change: number | null };

const FIELDS: Record<string, (row: Row) => number | string> = {
  run: (row) => row.run_name,
  last: (row) => Number(row.last),
  step: (row) => row.last_step ?? -1,
  low: (row) => row.low ?? Number.NaN,
  high: (row) => row.high ?? Number.NaN,
  count: (row) => row.count,
  change: (row) => row.change ?? Number.NaN,
};

export function SummaryTable({ metrics, runs, baseline }: Props): JSX.Element {
  const rows = metrics.flatMap(({ series }) => {
    const base = series.get(baseline ?? "");
    return runs.flatMap(({ id }): Row[] => {
      const row = series.get(id);
      return row ? [{ ...row, change: row === base ? null : changeOf(row, base) }] : [];
    });
  });
  const sort = query.value.get("sort") ?? "";
  const field = FIELDS[sort.replace("-", "")];
  if (field) rows.sort((one, other) => compare(field(one), field(other), sort.startsWith("-")));
  const source: Rows<Row> = { total: rows.length, at: (index) => rows[index], view: () => {} };
  return (
    <Table
      label="Last, lowest and highest values"
      columns={columnsOf(runs.length > 1, baseline !== null)}
      rows={source}
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
  return Number.isFinite(change) ? change : null;
}

function compare(one: number | string, other: number | string, descending: boolean): number {
  if (Number.isNaN(one) || Number.isNaN(other))
    return Number(Number.isNaN(one)) - Number(Number.isNaN(other));
  const order = one < other ? -1 : one > other ? 1 : 0;
  return descending ? -order : order;
}

function hrefOf({ name }: Row): string {
  const next = new URLSearchParams(query.value);
  next.delete("view");
  next.delete("sort");
  next.set("text", name);
  return `?${next}`;
}

function columnsOf(several: boolean, based: boolean): Column<Row>[] {
  const at = (value: number | null, step: number | null) => (
    <>
      {short(value)} {step !== null && <span class="quiet">@{count(step)}</span>}
    </>
  );
  const number = (id: string, title: string, width: number, rank: number, cell: Column<Row>["cell"]) => {
    return { id, title, width, rank, right: true, sort: id, cell };
  };
  const name: Column<Row> = {
    ...{ id: "metric", title: "Metric", width: 140, grows: true, rank: 0 },
    cell: (row) => (
      <a href={hrefOf(row)} tabIndex={-1} title={row.name}>
        {row.group !== "training" && <span class="quiet">{row.group}/</span>}
        {row.name}
      </a>
    ),
  };
  const run = { id: "run", title: "Run", width: 110, grows: true, rank: 1, sort: "run" };
  return [
    name,
    ...(several ? [{ ...run, cell: (row: Row) => <span title={row.run}>{row.run_name}</span> }] : []),
    number("last", "Last", 100, 2, (row) => (
      <span class={typeof row.last === "string" ? "failed" : ""}>{short(row.last)}</span>
    )),
    ...(based ? [number("change", "To baseline", 104, 3, ({ change }) => percent(change))] : []),
    number("low", "Lowest", 165, 4, (row) => at(row.low, row.low_step)),
    number("high", "Highest", 165, 5, (row) => at(row.high, row.high_step)),
    number("step", "Step", 90, 6, (row) => row.last_step !== null && count(row.last_step)),
    number("count", "Points", 90, 7, (row) => count(row.count)),
  ];
}

function percent(share: number | null): string {
  if (share === null) return "";
  return `${share > 0 ? "+" : ""}${short(Number((share * 100).toPrecision(3)))} %`;
}
