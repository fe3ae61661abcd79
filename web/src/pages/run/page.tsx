// One run, `/run/ID`: why it waits or how it ended, its attempts, workers, history and spec; and commands to it.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { useAnswer } from "../../state/answer.ts";
import { may } from "../../state/session.ts";
import { ACTS, ActDialog, type ActName } from "../runs/actions.tsx";
import { statusOf } from "../runs/status.ts";
import { DifferenceTab } from "./difference.tsx";
import { Files } from "./files.tsx";
import { History } from "./history.tsx";
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

const TABS: { name: string; title: string; Shown: ComponentType<TabProps> }[] = [
  { name: "", title: "Overview", Shown: Overview },
  { name: "logs", title: "Logs", Shown: Logs },
  { name: "metrics", title: "Metrics", Shown: Metrics },
  { name: "files", title: "Files", Shown: Files },
  { name: "spec", title: "Spec", Shown: SpecTab },
  { name: "difference", title: "Difference", Shown: DifferenceTab },
  { name: "history", title: "History", Shown: History },
];

export function RunPage({ rest }: PageProps): JSX.Element {
  const [id = "", tab = ""] = rest.split("/");
  const { data: run, problem, again } = useAnswer("GET /runs/{run}", { path: { run: id }, runs: [id] });
  const [act, setAct] = useState<ActName | null>(null);
  useEffect(() => {
    document.title = run ? `${run.name} · tarmac` : "tarmac";
  }, [run?.name]);
  if (problem) return <Problem problem={problem} />;
  if (!run) return <p class="loading">Loading…</p>;
  const chosen = TABS.find(({ name }) => name === tab) ?? TABS[0];
  const Shown = chosen?.Shown ?? Overview;
  const status = statusOf(run);
  return (
    <article class="page">
      <div class="bar">
        <h1>{run.name}</h1>
        <Status value={status} />
        <code class="quiet">{run.id}</code>
        <span class="bar-end">
          {may("submit") && (
            <>
              <a class="button" href={`/new?clone=${run.id}`}>
                Clone…
              </a>
              {run.state === "ended" && (
                <a class="button" href={`/new?clone=${run.id}&from=last`}>
                  Resume from checkpoint…
                </a>
              )}
            </>
          )}
          {may("control") &&
            Object.entries(ACTS).map(
              ([name, { verb, concerns }]) =>
                concerns(status) && (
                  <button key={name} type="button" class="button" onClick={() => setAct(name as ActName)}>
                    {verb}…
                  </button>
                ),
            )}
        </span>
      </div>
      <nav class="tabs" aria-label="Parts of the run">
        {TABS.map(({ name, title }) => (
          <a
            key={name}
            href={name ? `/run/${run.id}/${name}` : `/run/${run.id}`}
            aria-current={name === chosen?.name ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
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
