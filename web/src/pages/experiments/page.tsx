// The list of experiments, `/experiments`: the newest first, with their state, progress and search.

import type { JSX } from "preact";
import type { ExperimentState } from "../../api/types.ts";
import { age } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { Status } from "../../parts/status.tsx";
import { Toggle } from "../../parts/toggle.tsx";
import { now } from "../../state/clock.ts";
import { query } from "../../state/place.ts";
import { statusOf } from "../runs/status.ts";

const MOST = 1_000;
const ASK_MS = 3_000;
const STATES = ["active", "paused", "ended"] as const;

export function ExperimentsPage(): JSX.Element {
  const state = query.value.getAll("state") as ExperimentState[];
  const mine = query.value.has("mine");
  const project = query.value.get("project");
  const states = STATES.map((each) => {
    const others = state.filter((other) => other !== each);
    const on = state.includes(each);
    return <Toggle key={each} label={each} on={on} change={{ state: on ? others : [...others, each] }} />;
  });
  const bar = [
    <Toggle key="mine" label="mine" on={mine} change={{ mine: mine ? null : "yes" }} />,
    ...states,
    project && <Toggle key="project" label={`${project} ×`} on change={{ project: null }} />,
  ];
  return (
    <Sheet title="Experiments" bar={bar}>
      <List
        title="Experiments"
        heading={false}
        operation="GET /experiments"
        query={{ state, scope: mine ? "mine" : "all", project, limit: MOST, archived: false }}
        everyMs={ASK_MS}
        runs="all"
        rows={({ experiments }) => experiments}
        columns={[
          ["Name", ({ id, name }) => <a href={`/experiment/${id}`}>{name}</a>],
          ["State", (each) => <Status value={statusOf(each)} />],
          [
            "Progress",
            (each) => [<Bar key="" share={each.progress} label="Progress" />, percent(each.progress)],
          ],
          ["Search", ({ search }) => search.method, "wide"],
          [
            "Metric",
            ({ search: { metric, smaller_is_better: min } }) => metric && `${min ? "min" : "max"} ${metric}`,
            "wide",
          ],
          ["User", ({ user }) => user, "wide"],
          ["Project", ({ project: of }) => of, "wide"],
          ["Id", ({ id }) => <code>{id}</code>, "wide"],
          ["Age", ({ created_at }) => age(created_at, now.value), "right"],
        ]}
        command={commandLine("experiment", "ls", mine && "--mine")}
        empty="No experiment passes these filters. tarmac run train.yaml --sweep lr=1e-3,1e-4 starts one."
      />
    </Sheet>
  );
}

function percent(share: number): string {
  return ` ${Math.round(share * 100)}%`;
}
