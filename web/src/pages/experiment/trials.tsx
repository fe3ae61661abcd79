// The trials of an experiment as a table: each parameter that differs, and the metric; the best first.

import type { JSX } from "preact";
import type { Trial } from "../../api/types.ts";
import { sorted } from "../../parts/rows.ts";
import { Status } from "../../parts/status.tsx";
import { column, Table } from "../../parts/table.tsx";
import { differing, flat, short } from "../../parts/values.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { statusOf, type TabProps } from "./page.tsx";

export function Trials({ experiment, trials }: TabProps): JSX.Element {
  const { metric, smaller_is_better } = experiment.search;
  const sort = query.value.get("sort") ?? (metric ? (smaller_is_better ? "best" : "-best") : "number");
  const rows = trials.map((trial) => ({
    ...trial,
    status: statusOf(trial),
    ...flat({ p: trial.parameters }),
  }));
  type Row = Trial & { status: string };
  const fieldOf = (row: Row, name: string) => row[name as keyof Row];
  const number = (id: string, title: string, rank: number, width = 96) =>
    column<Row>(id, title, width, rank, (row) => short(fieldOf(row, id)), { right: true });
  const parameters = differing(trials.map((trial) => trial.parameters));
  const columns = [
    column<Row>("number", "Trial", 150, 0, ({ run, name }) => <a href={`/run/${run}`}>{name}</a>, {
      grows: true,
    }),
    column<Row>("status", "State", 104, 2, ({ status }) => <Status value={status} />),
    ...parameters.map((each, index) => number(`p.${each}`, each, 3 + index)),
    ...(metric ? [number("best", `Best ${metric}`, 1, 120), number("latest", "Last", 90)] : []),
    number("at", "Step", 80, 72),
  ];
  return (
    <Table
      label="Trials"
      columns={columns}
      rows={sorted(rows, sort, fieldOf)}
      keyOf={(row) => row.run}
      href={({ run }) => `/run/${run}`}
      open={go}
      sort={sort}
      onSort={(next) => setQuery({ sort: next })}
      empty="There is no trial yet."
    />
  );
}
