// One run, `/run/ID`: why it waits or how it ended, its attempts, workers, history and spec; and commands to it.

import type { ComponentProps, ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Link } from "../../parts/controls.tsx";
import { Page, Tabs } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Problem, Status, statusOf } from "../../parts/shown.tsx";
import { useAnswer } from "../../state/answer.ts";
import { may, mayControl } from "../../state/session.ts";
import { Approve } from "../burst/approve.tsx";
import type { Curves } from "../curves/view.tsx";
import { Acts } from "../runs/actions.tsx";
import { Files } from "./files.tsx";
import { Logs } from "./logs/page.tsx";
import { Overview } from "./overview.tsx";
import { DifferenceTab, Spec } from "./spec.tsx";

/** What each tab gets. */
export interface TabProps {
  run: Run;
}

const TABS: Record<string, [title: string, Shown: ComponentType<TabProps>]> = {
  "": ["Overview", Overview],
  logs: ["Logs", Logs],
  metrics: ["Metrics", Metrics],
  files: ["Files", Files],
  spec: ["Spec", Spec],
  difference: ["Difference", DifferenceTab],
};

export function RunPage({ rest }: PageProps) {
  const [id = "", tab = ""] = rest.split("/");
  const { data: run, problem } = useAnswer("GET /runs/{run}", { path: { run: id }, runs: [id] });
  if (problem || !run) return <Problem problem={problem} />;
  const chosen = tab in TABS ? tab : "";
  const [, Shown] = TABS[chosen] ?? ["", Overview];
  const status = statusOf(run);
  const clone = `/new?clone=${run.id}`;
  const bar = (
    <>
      <Status value={status} />
      <code class="quiet">{run.id}</code>
      <span class="bar-end">
        {may("submit") && <Link label="Clone…" href={clone} />}
        {may("submit") && run.state === "ended" && (
          <Link label="Resume from checkpoint…" href={`${clone}&from=last`} />
        )}
        {run.mode === "burst" && run.state === "queued" && mayControl(run.user) && <Approve run={run} />}
        {mayControl(run.user) && <Acts runs={[run]} status={status} />}
      </span>
    </>
  );
  return (
    <Page title={run.name} bar={bar}>
      <Tabs of={`/run/${run.id}`} tabs={TABS} chosen={chosen} />
      <Shown run={run} />
    </Page>
  );
}

/** Its curves, where its attempts began, and its last, lowest and highest values. */
function Metrics({ run }: TabProps) {
  const path = { run: run.id };
  const { data } = useAnswer("GET /runs/{run}/attempts", { path, when: run.attempt > 1 });
  const [Shown, setShown] = useState<ComponentType<ComponentProps<typeof Curves>> | null>(null);
  useEffect(() => {
    import("../curves/view.tsx").then(({ Curves }) => setShown(() => Curves), notifyFailure);
  }, []);
  return Shown ? <Shown runs={[run]} attempts={data} /> : <p class="loading">Loading…</p>;
}
