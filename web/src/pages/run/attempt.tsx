// One attempt of a run: where and how long it ran, its workers, and what its nodes use now.

import type { JSX } from "preact";
import type { Attempt, NodeUtilization, Run, WorkerStatus } from "../../api/types.ts";
import { bytes, duration, time } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { type Cell, Rows } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { now } from "../../state/clock.ts";
import { mayControl } from "../../state/session.ts";
import { placeOf } from "./logs/source.ts";

const WORKERS_SHOWN = 64;

const USE: Cell<NodeUtilization>[] = [
  ["Node", ({ node }) => node],
  ["CPUs", ({ cpus }) => cpus.toFixed(1), "right"],
  ["Memory", ({ memory_bytes }) => bytes(memory_bytes), "right"],
  [
    "GPUs",
    ({ gpus }) =>
      gpus.map(({ index, busy_percent, used_bytes, total_bytes }) => (
        <Bar
          key={index}
          share={busy_percent / 100}
          label={`GPU ${index}: ${busy_percent} % busy, ${bytes(used_bytes)} of ${bytes(total_bytes)}`}
        />
      )),
  ],
];

export function AttemptView({ run, attempt }: { run: Run; attempt: Attempt }): JSX.Element {
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
    ["Ran", (each) => each.started_at && duration((each.ended_at ?? now.value) - each.started_at), "right"],
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
          <time title={time(since)}>{duration((attempt.ended_at ?? now.value) - since)}</time>
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
