// The columns of the table of runs, by name; the names are those of `tarmac ls`.

import type { RunColumn, RunSummary } from "../../api/types.ts";
import { Age, Ran, Status, statusOf } from "../../parts/shown.tsx";
import { type Column, column, GROWS, RIGHT } from "../../parts/table.tsx";
import type { Line } from "./source.ts";

/** The name of a run in a table, which has the keys. */
export function RunLink({ id, name, array_index }: Pick<RunSummary, "id" | "name" | "array_index">) {
  return (
    <a href={`/run/${id}`} title={name} tabIndex={-1} draggable={false}>
      {name}
      {array_index !== null && <span class="quiet">[{array_index}]</span>}
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
        <RunLink {...run} />
      ) : isStatus ? (
        <Status value={statusOf(run)} word={text(run)} />
      ) : (
        <span title={text(run)}>{text(run)}</span>
      ),
  };
}

const Why = ({ message }: RunSummary) => <span title={message ?? ""}>{message}</span>;

const UNSORTED = { sort: "" };

const ALL: Column<RunSummary>[] = [
  column("name", "Name", 150, 0, RunLink, GROWS),
  column("status", "Status", 104, 1, (run) => <Status value={statusOf(run)} />),
  column("ran", "Ran", 76, 2, (run) => <Ran {...run} />, { ...UNSORTED, ...RIGHT }),
  column("created", "Age", 60, 3, (run) => <Age at={run.created_at} />, { sort: "created_at", ...RIGHT }),
  column("user", "User", 96, 4, ({ user }) => user),
  column("slots", "Slots", 60, 5, ({ slots }) => slots, RIGHT),
  column("why", "Why", 200, 6, Why, { ...UNSORTED, ...GROWS }),
  column("project", "Project", 110, 7, ({ project }) => project),
  column("mode", "Mode", 96, 8, ({ mode }) => mode !== "batch" && mode),
  column("cluster", "Cluster", 96, 9, ({ cluster }) => cluster),
  column("pool", "Pool", 84, 10, ({ pool }) => pool),
  column("priority", "Priority", 76, 11, ({ priority }) => priority || "", RIGHT),
  column("run", "Run", 170, 12, ({ id }) => <code>{id}</code>, { sort: "id" }),
  column("system", "System", 96, 13, ({ system }) => system),
  column("attempt", "Attempt", 70, 14, ({ attempt }) => attempt, RIGHT),
];

export const COLUMNS = Object.fromEntries(ALL.map((each) => [each.id, each]));

/** The columns that a person sees first. */
export const USUAL = "name status why mode priority slots cluster user project created ran".split(" ");
