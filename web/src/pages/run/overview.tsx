// The first part of a run's page: why it waits or how it ended, what it asked for, and its attempts.

import type { ComponentChildren, JSX } from "preact";
import type { Cause, Run } from "../../api/types.ts";
import { age, duration, time } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { may } from "../../state/session.ts";
import { ranFor } from "../runs/status.ts";
import { AttemptView } from "./attempt.tsx";
import { LabelForm } from "./labels.tsx";
import type { TabProps } from "./page.tsx";
import { WhyView } from "./why.tsx";

const WAITS = ["pending", "queued", "submitted"];
const MEASURED_MS = 5_000;

export function Overview({ run, again }: TabProps): JSX.Element {
  const path = { run: run.id };
  const waits = WAITS.includes(run.state);
  const { data: attempts } = useAnswer("GET /runs/{run}/attempts", {
    path,
    runs: [run.id],
    ...(run.state === "ended" ? {} : { everyMs: MEASURED_MS }),
  });
  return (
    <div class="columns">
      <section class="main-column">
        {waits && <WhyView run={run} />}
        {run.cause && <CauseView run={run} cause={run.cause} />}
        {attempts?.toReversed().map((attempt) => (
          <AttemptView key={attempt.number} run={run} attempt={attempt} />
        ))}
        {attempts?.length === 0 && !waits && <p class="quiet">This run had no attempt.</p>}
      </section>
      <aside class="facts">
        <Facts run={run} />
        {may("control") && <LabelForm run={run.id} onSet={again} />}
        <Command text={`tarmac show ${run.id}`} />
      </aside>
    </div>
  );
}

function CauseView({ run, cause }: { run: Run; cause: Cause }): JSX.Element {
  return (
    <div class={run.outcome === "failed" ? "panel cause" : "panel"}>
      <h2>{cause.message}</h2>
      {cause.reasons.map((reason) => (
        <p key={reason}>{reason}</p>
      ))}
      {cause.tail.length > 0 && <pre class="tail">{cause.tail.join("\n")}</pre>}
    </div>
  );
}

function Facts({ run }: { run: Run }): JSX.Element {
  const ran = ranFor(run, now.value);
  const rows: [string, ComponentChildren][] = [
    ["User", <a href={`/?user=${encodeURIComponent(run.user)}`}>{run.user}</a>],
    ["Project", <a href={`/?project=${encodeURIComponent(run.project)}`}>{run.project}</a>],
    ["Mode", run.mode],
    ["Slots", run.slots],
    ["Priority", run.priority],
    ["Pool", run.pool],
    ["Submitted", <time title={time(run.created_at)}>{`${age(run.created_at, now.value)} ago`}</time>],
    [
      "Started",
      run.started_at && <time title={time(run.started_at)}>{`${age(run.started_at, now.value)} ago`}</time>,
    ],
    [
      "Ended",
      run.ended_at && <time title={time(run.ended_at)}>{`${age(run.ended_at, now.value)} ago`}</time>,
    ],
    ["Ran", ran !== null && duration(ran)],
    ["Attempts", run.attempt],
    ["Preempted", run.preemptions > 0 && run.preemptions],
    ["Turns", run.max_turns !== null && `${run.turns} of ${run.max_turns}`],
    ["Array", run.array_id && <a href={`/?array=${run.array_id}`}>all members</a>],
    ["Commit", run.code_commit && <code>{run.code_commit.slice(0, 12)}</code>],
    ...Object.entries(run.labels).map(([key, value]): [string, ComponentChildren] => [
      key,
      <a href={`/?label=${encodeURIComponent(`${key}=${value}`)}`}>{value}</a>,
    ]),
  ];
  return (
    <dl>
      {rows.map(
        ([name, value]) =>
          value !== null &&
          value !== false && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
