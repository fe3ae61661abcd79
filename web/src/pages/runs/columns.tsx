// The columns of the table of runs, by name; the names are those of `tarmac ls`.

import type { RunColumn, RunSummary } from "../../api/types.ts";
import { age, duration } from "../../parts/amounts.ts";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { now } from "../../state/clock.ts";
import type { Line } from "./source.ts";
import { ranFor, statusOf } from "./status.ts";

function Age({ at }: { at: number | null }) {
  return <>{age(at, now.value)}</>;
}

function Ran({ run }: { run: RunSummary }) {
  return <>{duration(ranFor(run, run.ended_at ?? now.value))}</>;
}

function RunLink({ run }: { run: RunSummary }) {
  return (
    <a href={`/run/${run.id}`} title={run.name} tabIndex={-1}>
      {run.name}
      {run.array_index !== null && <span class="quiet">[{run.array_index}]</span>}
    </a>
  );
}

/** A column of another system, in its words; the name leads to the run, and a status has the sign of tarmac's. */
export function foreignColumn({ title, sort, right }: RunColumn, index: number): Column<Line> {
  const named = sort === "name";
  const isStatus = sort === "status";
  const text = (run: Line) => run.texts[index] ?? "";
  return {
    id: title,
    title,
    width: sort?.endsWith("_at") ? 190 : sort === "id" ? 140 : 110,
    grows: named,
    rank: named ? 0 : isStatus ? 1 : index + 2,
    right,
    ...(sort === null ? {} : { sort }),
    cell: (run) =>
      named ? (
        <RunLink run={run} />
      ) : isStatus ? (
        <Status value={statusOf(run)} word={text(run)} />
      ) : (
        <span title={text(run)}>{text(run)}</span>
      ),
  };
}

export const COLUMNS: Record<string, Column<RunSummary>> = Object.fromEntries(
  (
    [
      {
        id: "name",
        title: "Name",
        width: 150,
        grows: true,
        rank: 0,
        sort: "name",
        cell: (run) => <RunLink run={run} />,
      },
      {
        id: "status",
        title: "Status",
        width: 104,
        rank: 1,
        sort: "status",
        cell: (run) => <Status value={statusOf(run)} />,
      },
      { id: "ran", title: "Ran", width: 76, rank: 2, right: true, cell: (run) => <Ran run={run} /> },
      {
        id: "created",
        title: "Age",
        width: 60,
        rank: 3,
        right: true,
        sort: "created_at",
        cell: (run) => <Age at={run.created_at} />,
      },
      { id: "user", title: "User", width: 96, rank: 4, sort: "user", cell: (run) => run.user },
      {
        id: "slots",
        title: "Slots",
        width: 60,
        rank: 5,
        right: true,
        sort: "slots",
        cell: (run) => run.slots,
      },
      {
        id: "why",
        title: "Why",
        width: 200,
        grows: true,
        rank: 6,
        cell: (run) => <span title={run.message ?? ""}>{run.message}</span>,
      },
      { id: "project", title: "Project", width: 110, rank: 7, sort: "project", cell: (run) => run.project },
      {
        id: "mode",
        title: "Mode",
        width: 96,
        rank: 8,
        sort: "mode",
        cell: (run) => (run.mode === "batch" ? "" : run.mode),
      },
      { id: "cluster", title: "Cluster", width: 96, rank: 9, sort: "cluster", cell: (run) => run.cluster },
      { id: "pool", title: "Pool", width: 84, rank: 10, sort: "pool", cell: (run) => run.pool },
      {
        id: "priority",
        title: "Priority",
        width: 76,
        rank: 11,
        right: true,
        sort: "priority",
        cell: (run) => run.priority || "",
      },
      {
        id: "run",
        title: "Run",
        width: 170,
        rank: 12,
        sort: "id",
        cell: (run) => <code>{run.id}</code>,
      },
      { id: "system", title: "System", width: 96, rank: 13, sort: "system", cell: (run) => run.system },
      {
        id: "attempt",
        title: "Attempt",
        width: 70,
        rank: 14,
        right: true,
        sort: "attempt",
        cell: (run) => run.attempt,
      },
    ] satisfies Column<RunSummary>[]
  ).map((column) => [column.id, column]),
);

export const USUAL = [
  "name",
  "status",
  "why",
  "mode",
  "priority",
  "slots",
  "cluster",
  "user",
  "project",
  "created",
  "ran",
];
