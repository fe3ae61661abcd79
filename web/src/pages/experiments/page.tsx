// The list of experiments, `/experiments`: the newest first, with their state, progress and search.

import type { JSX } from "preact";
import type { ExperimentState } from "../../api/types.ts";
import { age } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { Status } from "../../parts/status.tsx";
import { now } from "../../state/clock.ts";
import { query, setQuery } from "../../state/place.ts";
import { statusOf } from "../runs/status.ts";

const MOST = 1_000;
const ASK_MS = 3_000;
const STATES: ExperimentState[] = ["active", "paused", "ended"];

export function ExperimentsPage(): JSX.Element {
  const values = query.value;
  const state = values.getAll("state") as ExperimentState[];
  const scope = values.has("mine") ? "mine" : "all";
  const toggle = (label: string, on: boolean, change: Parameters<typeof setQuery>[0]) => (
    <button
      key={label}
      type="button"
      class="button toggle"
      aria-pressed={on}
      onClick={() => setQuery(change)}
    >
      {label}
    </button>
  );
  const states = STATES.map((each) =>
    toggle(each, state.includes(each), {
      state: state.includes(each) ? state.filter((other) => other !== each) : [...state, each],
    }),
  );
  const project = values.get("project");
  const bar = [
    toggle("mine", scope === "mine", { mine: scope === "mine" ? null : "yes" }),
    ...states,
    project && toggle(`${project} ×`, true, { project: null }),
  ];
  return (
    <Sheet title="Experiments" bar={bar}>
      <List
        title="Experiments"
        heading={false}
        operation="GET /experiments"
        query={{ state, scope, project, limit: MOST, archived: false }}
        everyMs={ASK_MS}
        rows={({ experiments }) => experiments}
        columns={[
          ["Name", ({ id, name }) => <a href={`/experiment/${id}`}>{name}</a>],
          ["State", (each) => <Status value={statusOf(each)} />],
          [
            "Progress",
            ({ progress }) => [<Bar key="" share={progress} label="" />, ` ${Math.round(progress * 100)}%`],
          ],
          ["Search", ({ search }) => search.method, "wide"],
          [
            "Metric",
            ({ search: { metric, smaller_is_better } }) =>
              metric && `${smaller_is_better ? "min" : "max"} ${metric}`,
            "wide",
          ],
          ["User", ({ user }) => user, "wide"],
          ["Project", ({ project: of }) => of, "wide"],
          ["Id", ({ id }) => <code>{id}</code>, "wide"],
          ["Age", ({ created_at }) => age(created_at, now.value), "right"],
        ]}
        command={commandLine("experiment", "ls", scope === "mine" && "--mine")}
        empty="No experiment passes these filters. tarmac run train.yaml --sweep lr=1e-3,1e-4 starts one."
      />
    </Sheet>
  );
}
