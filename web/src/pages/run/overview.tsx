// The first part of a run's page: why it waits or how it ended, what it asked for, and its attempts.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Run } from "../../api/types.ts";
import { age, duration, time } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { type Fact, Facts } from "../../parts/facts.tsx";
import { type Form, FormButton, useForm } from "../../parts/form.tsx";
import { LABEL_INPUT, labelChange } from "../../parts/labels.ts";
import { commandLine } from "../../parts/shell.ts";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { may, mayControl } from "../../state/session.ts";
import { ranFor } from "../runs/status.ts";
import { AttemptView } from "./attempt.tsx";
import { History } from "./history.tsx";
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
  const { data: notes, again: renew } = useAnswer("GET /runs/{run}/annotations", { path });
  const { show, dialog } = useForm(() => {
    again();
    renew();
  });
  return (
    <div class="columns">
      <section class="main-column">
        <History run={run} />
        {waits && <WhyView run={run} />}
        {run.cause && (
          <div class={run.outcome === "failed" ? "panel cause" : "panel"}>
            <h2>{run.cause.message}</h2>
            {run.cause.reasons.map((reason) => (
              <p key={reason}>{reason}</p>
            ))}
            {run.cause.tail.length > 0 && <pre class="tail">{run.cause.tail.join("\n")}</pre>}
          </div>
        )}
        {attempts?.toReversed().map((attempt) => (
          <AttemptView key={attempt.number} run={run} attempt={attempt} />
        ))}
        {attempts?.length === 0 && !waits && <p class="quiet">This run had no attempt.</p>}
      </section>
      <aside class="facts">
        <RunFacts run={run} />
        {notes?.map(({ at, actor, kind, text }) => (
          <p key={`${at}${text}`} class="note">
            {kind === "note" ? text : `${kind} ${text}`}{" "}
            <span class="quiet">
              {actor}, {time(at)}
            </span>
          </p>
        ))}
        <span>
          {mayControl(run.user) && <FormButton form={labelForm(run.id)} show={show} />}{" "}
          {may("control") && <FormButton form={noteForm(run.id)} show={show} />}
        </span>
        <Command text={`tarmac show ${run.id}`} />
        {dialog}
      </aside>
    </div>
  );
}

function labelForm(run: string): Form {
  return {
    verb: "Label",
    title: "Set a label",
    fields: [["text", "KEY=VALUE, or KEY- to remove it", "", LABEL_INPUT]],
    command: ({ text = "" }) => commandLine("label", run, text),
    send: ({ text = "" }) =>
      ask("PATCH /runs/{run}/labels", { path: { run }, body: { labels: labelChange(text) } }),
  };
}

function noteForm(run: string): Form {
  return {
    verb: "Note",
    title: "Add a note",
    fields: [["text", "Text", "", "long"]],
    command: ({ text = "" }) => commandLine("note", run, text),
    send: ({ text = "" }) => ask("POST /runs/{run}/notes", { path: { run }, body: { text } }),
  };
}

function RunFacts({ run }: { run: Run }): JSX.Element {
  const ran = ranFor(run, now.value);
  const ago = (at: number | null) =>
    at !== null && <time title={time(at)}>{`${age(at, now.value)} ago`}</time>;
  const runs = (filter: string, value: string, text = value) => (
    <a href={`/?${filter}=${encodeURIComponent(value)}`}>{text}</a>
  );
  const facts: Fact[] = [
    ["User", runs("user", run.user)],
    ["Project", runs("project", run.project)],
    ["Mode", run.mode],
    ["Slots", run.slots],
    ["Priority", run.priority],
    ["Pool", run.pool],
    ["Submitted", ago(run.created_at)],
    ["Started", ago(run.started_at)],
    ["Ended", ago(run.ended_at)],
    ["Ran", ran !== null && duration(ran)],
    ["Attempts", run.attempt],
    ["Preempted", run.preemptions > 0 && run.preemptions],
    ["Turns", run.max_turns !== null && `${run.turns} of ${run.max_turns}`],
    ["Array", run.array_id && runs("array", run.array_id, "all members")],
    ["Commit", run.code_commit && <code>{run.code_commit.slice(0, 12)}</code>],
    ...Object.entries(run.labels).map(([key, value]): Fact => [key, runs("label", `${key}=${value}`, value)]),
  ];
  return <Facts facts={facts} />;
}
