// One attempt of a run: where and how long it ran, its workers, and what its nodes use now.

import type { JSX } from "preact";
import type { Attempt, Run, WorkerStatus } from "../../api/types.ts";
import { bytes, duration, time } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Status } from "../../parts/status.tsx";
import { now } from "../../state/clock.ts";

const WORKERS_SHOWN = 64;

export function AttemptView({ attempt }: { run: Run; attempt: Attempt }): JSX.Element {
  const live = attempt.ended_at === null;
  const since = attempt.started_at ?? attempt.created_at;
  return (
    <details class="panel" open={live || attempt.number === 1}>
      <summary>
        <h2>Attempt {attempt.number}</h2>
        <Status value={attempt.outcome ?? attempt.state} />
        <span class="quiet">
          {attempt.nodes.length > 2 ? `${attempt.nodes.length} nodes` : attempt.nodes.join(", ")} on{" "}
          {attempt.cluster},{" "}
          <time title={time(since)}>{duration((attempt.ended_at ?? now.value) - since)}</time>
        </span>
      </summary>
      {attempt.cause && attempt.outcome !== "completed" && <p>{attempt.cause.message}</p>}
      {attempt.native && (
        <p>
          Job <code>{attempt.native.id}</code>: {attempt.native.text || attempt.native.state}
        </p>
      )}
      {attempt.lost && attempt.lost.work_s > 0 && (
        <p class="quiet">The work of {duration(attempt.lost.work_s)} since the last checkpoint was lost.</p>
      )}
      {attempt.notices.map(({ at, node, text }) => (
        <p key={`${at}${node}${text}`} class="quiet">
          {node}: {text}
        </p>
      ))}
      {attempt.utilization.length > 0 && <Utilization attempt={attempt} />}
      {attempt.workers.length > 0 && <Workers workers={attempt.workers} />}
    </details>
  );
}

function Utilization({ attempt }: { attempt: Attempt }): JSX.Element {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col" class="right">
            CPUs
          </th>
          <th scope="col" class="right">
            Memory
          </th>
          <th scope="col">GPUs</th>
        </tr>
      </thead>
      <tbody>
        {attempt.utilization.map(({ node, cpus, memory_bytes, gpus }) => (
          <tr key={node}>
            <td>{node}</td>
            <td class="right">{cpus.toFixed(1)}</td>
            <td class="right">{bytes(memory_bytes)}</td>
            <td class="gpus">
              {gpus.map(({ index, busy_percent, used_bytes, total_bytes }) => (
                <Bar
                  key={index}
                  share={busy_percent / 100}
                  label={`GPU ${index}: ${busy_percent} % busy, ${bytes(used_bytes)} of ${bytes(total_bytes)}`}
                />
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Workers({ workers }: { workers: WorkerStatus[] }): JSX.Element {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Worker</th>
          <th scope="col">Rank</th>
          <th scope="col">Node</th>
          <th scope="col" class="right">
            Ran
          </th>
          <th scope="col">End</th>
        </tr>
      </thead>
      <tbody>
        {workers.slice(0, WORKERS_SHOWN).map((worker) => (
          <tr key={worker.log}>
            <td>{`${worker.role}.${worker.replica}.${worker.index}`}</td>
            <td>{worker.rank}</td>
            <td>{worker.node}</td>
            <td class="right">
              {worker.started_at !== null && duration((worker.ended_at ?? now.value) - worker.started_at)}
            </td>
            <td class={worker.exit_code ? "failed" : ""}>{endOf(worker)}</td>
          </tr>
        ))}
      </tbody>
      {workers.length > WORKERS_SHOWN && (
        <caption class="quiet">
          The first {WORKERS_SHOWN} of {workers.length} workers
        </caption>
      )}
    </table>
  );
}

function endOf({ exit_code, signal, ended_at }: WorkerStatus): string {
  if (signal !== null) return signal;
  if (exit_code !== null) return `exit ${exit_code}`;
  return ended_at === null ? "" : "ended";
}
