// The first part of a run's page: its history, why it waits or how it ended, what it asked for, and its attempts.

import { ask } from "../../api/request.ts";
import type { Attempt, NodeUtilization, Run, WorkerStatus } from "../../api/types.ts";
import { type Form, FormButton } from "../../parts/form.tsx";
import { type Cell, Rows } from "../../parts/list.tsx";
import { LABEL_INPUT, labelChange } from "../../parts/shell.ts";
import { Age, Command, type Fact, Facts, gpuBars, Ran, Status } from "../../parts/shown.tsx";
import { bytes, count, duration, time } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { may, mayControl, now } from "../../state/session.ts";
import { placeOf } from "./logs/source.ts";
import type { TabProps } from "./page.tsx";

const WAITS = ["pending", "queued", "submitted"];
const ASK_MS = 5_000;

export function Overview({ run }: TabProps) {
  const path = { run: run.id };
  const waits = WAITS.includes(run.state);
  const everyMs = run.state === "ended" ? 0 : ASK_MS;
  const { data: attempts } = useAnswer("GET /runs/{run}/attempts", { path, runs: [run.id], everyMs });
  const { data: notes } = useAnswer("GET /runs/{run}/annotations", { path });
  return (
    <div class="columns">
      <section class="main-column">
        <History run={run} />
        {waits && <Why run={run} />}
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
          {mayControl(run.user) && <FormButton form={labelForm(run.id)} />}{" "}
          {may("control") && <FormButton form={noteForm(run.id)} />}
        </span>
        <Command of={["show", run.id]} />
      </aside>
    </div>
  );
}

const labelForm = (run: string): Form => ({
  verb: "Label",
  title: "Set a label",
  fields: [["text", "KEY=VALUE, or KEY- to remove it", "", LABEL_INPUT]],
  command: ({ text }) => ["label", run, text],
  send: ({ text = "" }) =>
    ask("PATCH /runs/{run}/labels", { path: { run }, body: { labels: labelChange(text) } }),
});

const noteForm = (run: string): Form => ({
  verb: "Note",
  title: "Add a note",
  fields: [["text", "Text", "", "long"]],
  command: ({ text }) => ["note", run, text],
  send: ({ text = "" }) => ask("POST /runs/{run}/notes", { path: { run }, body: { text } }),
});

function RunFacts({ run }: TabProps) {
  const ago = (at: number | null) => at !== null && <Age at={at} word=" ago" />;
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
    ["Ran", run.started_at !== null && <Ran {...run} />],
    ["Attempts", run.attempt],
    ["Preempted", run.preemptions > 0 && run.preemptions],
    ["Turns", run.max_turns !== null && `${run.turns} of ${run.max_turns}`],
    ["Array", run.array_id && runs("array", run.array_id, "all members")],
    ["Commit", run.code_commit && <code>{run.code_commit.slice(0, 12)}</code>],
    ...Object.entries(run.labels).map(([key, value]): Fact => [key, runs("label", `${key}=${value}`, value)]),
  ];
  return <Facts facts={facts} />;
}

/** A bar of its states over time, which opens the list of its events. */
function History({ run }: TabProps) {
  const { data } = useAnswer("GET /runs/{run}/events", { path: { run: run.id }, runs: [run.id] });
  const events = data?.map((each, index) => ({ ...each, before: data[index - 1] })) ?? [];
  const begins = events.filter(({ state, before }) => state !== before?.state);
  const periods = begins.flatMap(({ seq, state, at }, index) => {
    const seconds = Math.max(0, (begins[index + 1]?.at ?? now.value) - at);
    const title = `${state} ${duration(seconds)}`;
    return state === "ended"
      ? []
      : { seq, title, class: `period period-${state}`, style: { flexGrow: seconds } };
  });
  return (
    <details class="states">
      <summary title="History">
        {periods.map(({ seq, ...period }) => (
          <span key={seq} {...period}>
            {period.title}
          </span>
        ))}
        <span class="quiet">&ensp;History</span>
      </summary>
      <Rows
        label="History"
        rows={events}
        columns={[
          ["Time", ({ at }) => time(at)],
          ["After", ({ at, before }) => before && duration(at - before.at), "right"],
          ["State", ({ state }) => <Status value={state} />],
          ["Event", ({ event }) => event.replaceAll("_", " ")],
          ["By", ({ actor }) => actor],
        ]}
      />
    </details>
  );
}

/** Why it waits: the reason, what would start it, when it may start, and the reason of each node. */
function Why({ run }: TabProps) {
  const asked = { path: { run: run.id }, everyMs: ASK_MS, runs: [run.id] };
  const { data: why } = useAnswer("GET /runs/{run}/why", asked);
  if (!why) return null;
  const general = why.reasons.flatMap(({ text, node }) => (node === null ? text : []));
  const ofNodes = why.reasons.filter(({ node }) => node !== null);
  const nodes = [...Map.groupBy(ofNodes, ({ text }) => text)];
  return (
    <div class="panel waits">
      <h2>{why.headline}</h2>
      {[why.estimate?.text, why.unblocked_by, ...general].map((text) => text && <p key={text}>{text}</p>)}
      {why.ahead > 0 && (
        <p>
          {count(why.ahead)} ahead:{" "}
          {why.ahead_first.map(({ id, name }, index) => [
            index > 0 && ", ",
            <a key={id} href={`/run/${id}`}>
              {name}
            </a>,
          ])}
          {why.ahead > why.ahead_first.length && ", …"}
        </p>
      )}
      {nodes.length > 0 && (
        <Rows
          label="Reasons of nodes"
          rows={nodes}
          columns={[
            ["Reason", ([text]) => text],
            [
              "Nodes",
              ([, of]) => (of.length > 3 ? `${of.length} nodes` : of.map(({ node }) => node).join(", ")),
            ],
          ]}
        />
      )}
      {why.hook_changes.map((change) => (
        <p key={change} class="quiet">
          {change}
        </p>
      ))}
      <Command of={["why", run.id]} />
    </div>
  );
}

const WORKERS_SHOWN = 64;

const USE: Cell<NodeUtilization>[] = [
  ["Node", ({ node }) => node],
  ["CPUs", ({ cpus }) => cpus.toFixed(1), "right"],
  ["Memory", ({ memory_bytes }) => bytes(memory_bytes), "right"],
  ["GPUs", gpuBars],
];

/** Where and how long an attempt ran, its workers, and what its nodes use now. */
function AttemptView({ run, attempt }: { run: Run; attempt: Attempt }) {
  const { number, nodes, cause, native, lost, workers } = attempt;
  const since = attempt.started_at ?? attempt.created_at;
  const name = ({ role, replica, index }: WorkerStatus) => `${role}.${replica}.${index}`;
  const place = (each: WorkerStatus) =>
    new URLSearchParams(placeOf({ ...each, attempt: number, worker: each.index }));
  const terminal = (each: WorkerStatus) => (
    <a href={`/run/${run.id}/terminal?${place(each)}`} target="_blank" rel="noreferrer">
      terminal
    </a>
  );
  const columns: Cell<WorkerStatus>[] = [
    ["Worker", (each) => <a href={`/run/${run.id}/logs?${place(each)}`}>{name(each)}</a>],
    ["Rank", ({ rank }) => rank],
    ["Node", ({ node }) => node],
    ["Ran", (each) => <Ran {...each} />, "right"],
    ["End", (each) => <span class={each.exit_code ? "failed" : ""}>{endOf(each)}</span>],
    ["", (each) => mayControl(run.user) && each.started_at && !each.ended_at && terminal(each), "right"],
  ];
  return (
    <details class="panel" open={attempt.ended_at === null || number === 1}>
      <summary>
        <h2>Attempt {number}</h2>
        <Status value={attempt.outcome ?? attempt.state} />
        <span class="quiet">
          {nodes.length > 2 ? `${nodes.length} nodes` : nodes.join(", ")} on {attempt.cluster},{" "}
          <time title={time(since)}>
            <Ran started_at={since} ended_at={attempt.ended_at} />
          </time>
        </span>
      </summary>
      {attempt.outcome !== "completed" && cause && cause.message !== run.cause?.message && (
        <p>{cause.message}</p>
      )}
      {native && (
        <p>
          Job <code>{native.id}</code>: {native.text || native.state}
        </p>
      )}
      {lost && lost.work_s >= 1 && (
        <p class="quiet">The work of {duration(lost.work_s)} since the last checkpoint was lost.</p>
      )}
      {attempt.notices.map(({ at, node, text }) => (
        <p key={`${at}${node}${text}`} class="quiet">
          {node}: {text}
        </p>
      ))}
      {attempt.utilization.length > 0 && (
        <Rows label="Use of the nodes" columns={USE} rows={attempt.utilization} />
      )}
      {workers.length > 0 && (
        <Rows label="Workers" columns={columns} rows={workers.slice(0, WORKERS_SHOWN)} />
      )}
      {workers.length > WORKERS_SHOWN && (
        <p class="quiet">
          The first {WORKERS_SHOWN} of {workers.length} workers
        </p>
      )}
    </details>
  );
}

const endOf = ({ exit_code, signal, ended_at }: WorkerStatus) =>
  signal ?? (exit_code === null ? ended_at && "ended" : `exit ${exit_code}`);
