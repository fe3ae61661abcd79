// The choice of a log: of the workers of each attempt, and of the setup of its nodes.

import type { JSX } from "preact";
import type { Attempt, LogWindow, Run } from "../../../api/types.ts";
import { Menu } from "../../../parts/menu.tsx";
import { setQuery } from "../../../state/place.ts";

const SHOWN = 512;

type Place = Record<"attempt" | "role" | "replica" | "worker", string>;

interface Log {
  name: string;
  failed: boolean;
  node: string;
  place: Place;
}

/** The logs of an attempt: of its workers, and of the setup of its nodes. */
export function logsOf(run: Run, { number, state, nodes, workers }: Attempt): Log[] {
  const { setup } = run.spec;
  const sets = Array.isArray(setup) && setup.length > 0 && state !== "submitted";
  const place = (role: string, replica: number, index: number): Place => {
    return { attempt: String(number), role, replica: String(replica), worker: String(index) };
  };
  return [
    ...workers.map(({ role, replica, index, rank, node, exit_code }) => ({
      name: rank === null ? `${role}.${replica}.${index}` : `rank ${rank}`,
      failed: Boolean(exit_code),
      node,
      place: place(role, replica, index),
    })),
    ...(sets ? nodes : []).map((node, rank) => {
      return { name: "setup", failed: false, node, place: place("setup", rank, 0) };
    }),
  ];
}

interface Props {
  run: Run;
  attempts: Attempt[];
  worker: LogWindow | null;
}

export function WorkerMenu({ run, attempts, worker }: Props): JSX.Element | null {
  const logs = attempts.toReversed().flatMap((attempt) => logsOf(run, attempt));
  const keys = worker && ["attempt", "role", "replica", "worker"].map((key) => worker[key as keyof Place]);
  const present = logs.find(({ place }) => Object.values(place).join() === keys?.join());
  if (!present || logs.length < 2) return null;
  const several = attempts.length > 1;
  const title = ({ name, place }: Log) => (several ? `Attempt ${place.attempt}, ${name}` : name);
  return (
    <Menu label={title(present)}>
      {logs.slice(0, SHOWN).map((log) => (
        <button
          key={Object.values(log.place).join()}
          type="button"
          onClick={() => setQuery({ ...log.place, rank: null, at: null })}
        >
          {title(log)}{" "}
          <span class={log.failed ? "failed" : "quiet"}>{log.failed ? `${log.node} failed` : log.node}</span>
        </button>
      ))}
      {logs.length > SHOWN && <p class="menu-note">and {logs.length - SHOWN} more: ?rank= chooses one</p>}
    </Menu>
  );
}
