// One run, `/run/ID`: why it waits or how it ended, its attempts, workers, history and spec; and commands to it.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Tabs } from "../../parts/list.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { useAnswer } from "../../state/answer.ts";
import { may, mayControl } from "../../state/session.ts";
import { ACTS, ActDialog, type ActName } from "../runs/actions.tsx";
import { statusOf } from "../runs/status.ts";
import { DifferenceTab } from "./difference.tsx";
import { Files } from "./files.tsx";
import { Logs } from "./logs/page.tsx";
import { Metrics } from "./metrics.tsx";
import { Overview } from "./overview.tsx";
import { SpecTab } from "./spec.tsx";

/** What each tab gets. */
export interface TabProps {
  run: Run;
  /** Ask for the run again, after a change. */
  again: () => void;
}

const TABS: Record<string, [title: string, Shown: ComponentType<TabProps>]> = {
  "": ["Overview", Overview],
  logs: ["Logs", Logs],
  metrics: ["Metrics", Metrics],
  files: ["Files", Files],
  spec: ["Spec", SpecTab],
  difference: ["Difference", DifferenceTab],
};
const TITLES = Object.fromEntries(Object.entries(TABS).map(([name, [title]]) => [name, title]));

export function RunPage({ rest }: PageProps): JSX.Element {
  const [id = "", tab = ""] = rest.split("/");
  const { data: run, problem, again } = useAnswer("GET /runs/{run}", { path: { run: id }, runs: [id] });
  const [act, setAct] = useState<ActName | null>(null);
  useEffect(() => {
    document.title = run ? `${run.name} · tarmac` : "tarmac";
  }, [run?.name]);
  if (problem) return <Problem problem={problem} />;
  if (!run) return <p class="loading">Loading…</p>;
  const [, Shown] = TABS[tab] ?? ["", Overview];
  const status = statusOf(run);
  const acts = Object.entries(ACTS) as [ActName, (typeof ACTS)[ActName]][];
  return (
    <article class="page">
      <div class="bar">
        <h1>{run.name}</h1>
        <Status value={status} />
        <code class="quiet">{run.id}</code>
        <span class="bar-end">
          {may("submit") && (
            <a class="button" href={`/new?clone=${run.id}`}>
              Clone…
            </a>
          )}
          {may("submit") && run.state === "ended" && (
            <a class="button" href={`/new?clone=${run.id}&from=last`}>
              Resume from checkpoint…
            </a>
          )}
          {acts.map(
            ([name, { verb, concerns }]) =>
              name !== "label" &&
              mayControl(run.user) &&
              concerns(status) && (
                <button key={name} type="button" class="button" onClick={() => setAct(name)}>
                  {verb}…
                </button>
              ),
          )}
        </span>
      </div>
      <Tabs of={`/run/${run.id}`} tabs={TITLES} chosen={tab in TABS ? tab : ""} />
      <Shown run={run} again={again} />
      {act !== null && (
        <ActDialog
          name={act}
          runs={[run]}
          onClose={() => {
            setAct(null);
            again();
          }}
        />
      )}
    </article>
  );
}
