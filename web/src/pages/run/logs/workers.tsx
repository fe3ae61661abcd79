// The choice of a log: of the workers of each attempt, and of the setup of its nodes.

import type { JSX } from "preact";
import type { Attempt, LogWindow, Run } from "../../../api/types.ts";
import { Menu } from "../../../parts/menu.tsx";
import { setQuery } from "../../../state/place.ts";
import { type LogPlace, placeOf } from "./source.ts";

const SHOWN = 512;

type Log = LogPlace & Pick<LogWindow, "rank" | "node"> & { failed: boolean };

/** The logs of an attempt: of its workers, and of the setup of its nodes. */
export function logsOf(run: Run, { number, state, nodes, workers }: Attempt): Log[] {
  const { setup } = run.spec;
  const sets = Array.isArray(setup) && setup.length > 0 && state !== "submitted";
  const log = { attempt: number, worker: 0, rank: null, failed: false };
  return [
    ...workers.map((each) => ({ ...log, ...each, worker: each.index, failed: Boolean(each.exit_code) })),
    ...(sets ? nodes : []).map((node, replica) => ({ ...log, role: "setup", replica, node })),
  ];
}

/** The name of a log: the rank of its worker, or its place among the workers. */
export function nameOf({ role, replica, worker, rank }: Omit<Log, "failed" | "node">): string {
  if (rank !== null) return `rank ${rank}`;
  return role === "setup" ? "setup" : `${role}.${replica}.${worker}`;
}

interface Props {
  run: Run;
  attempts: Attempt[];
  worker: LogWindow | null;
}

export function WorkerMenu({ run, attempts, worker }: Props): JSX.Element | null {
  const logs = attempts.toReversed().flatMap((attempt) => logsOf(run, attempt));
  const keyOf = (log: LogPlace) => JSON.stringify(placeOf(log));
  const present = worker && logs.find((log) => keyOf(log) === keyOf(worker));
  if (!present || logs.length < 2) return null;
  const title = (log: Log) => `${attempts.length > 1 ? `Attempt ${log.attempt}, ` : ""}${nameOf(log)}`;
  return (
    <Menu label={title(present)}>
      {logs.slice(0, SHOWN).map((log) => (
        <button
          key={keyOf(log)}
          type="button"
          onClick={() => setQuery({ ...placeOf(log), rank: null, at: null })}
        >
          {title(log)}{" "}
          <span class={log.failed ? "failed" : "quiet"}>{log.failed ? `${log.node} failed` : log.node}</span>
        </button>
      ))}
      {logs.length > SHOWN && <p class="menu-note">and {logs.length - SHOWN} more: ?rank= chooses one</p>}
    </Menu>
  );
}
