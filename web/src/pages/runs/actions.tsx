// Commands to the selected runs. The number and the names are shown before, the result of each run after it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { RunCommand, RunSummary } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { statusOf } from "./status.ts";

interface Act {
  verb: string;
  /** Whether the command would change a run with this status. */
  concerns: (status: string) => boolean;
}

const ENDED = ["completed", "failed", "stopped"];

export const ACTS: Record<RunCommand, Act> = {
  stop: { verb: "Stop", concerns: (status) => !ENDED.includes(status) },
  pause: {
    verb: "Pause",
    concerns: (status) => ![...ENDED, "paused", "pausing", "stopping"].includes(status),
  },
  resume: { verb: "Resume", concerns: (status) => /^paus/.test(status) },
};

export type ActName = RunCommand;

const NAMES_SHOWN = 12;
const MOST_AT_ONCE = 1_000;

/** What a command shows of a run. */
type NamedRun = Pick<RunSummary, "id" | "name" | "state" | "outcome">;

interface Props {
  name: ActName;
  runs: NamedRun[];
  onClose: () => void;
}

interface Result {
  run: NamedRun;
  problem: string | null;
}

export function ActDialog({ name, runs, onClose }: Props): JSX.Element {
  const act = ACTS[name];
  const concerned = runs.filter((run) => act.concerns(statusOf(run)));
  const [results, setResults] = useState<Result[] | null>(null);
  async function begin(): Promise<void> {
    const found: Result[] = [];
    setResults([]);
    for (let first = 0; first < concerned.length; first += MOST_AT_ONCE) {
      const part = concerned.slice(first, first + MOST_AT_ONCE);
      const answer = await ask("POST /runs/commands", {
        body: { command: name, runs: part.map(({ id }) => id) },
      });
      found.push(...part.map((run, index) => ({ run, problem: answer[index]?.error?.message ?? null })));
      setResults([...found]);
    }
  }
  const unchanged = runs.length - concerned.length;
  const title = `${act.verb} ${concerned.length === 1 ? "1 run" : `${count(concerned.length)} runs`}`;
  const failed = results?.filter(({ problem }) => problem !== null) ?? [];
  const over = results !== null && results.length === concerned.length;
  return (
    <Dialog title={title} onClose={onClose}>
      <ul class="named-runs">
        {concerned.slice(0, NAMES_SHOWN).map((run) => (
          <li key={run.id}>
            {run.name} <code class="quiet">{run.id}</code>
          </li>
        ))}
        {concerned.length > NAMES_SHOWN && (
          <li class="quiet">and {count(concerned.length - NAMES_SHOWN)} more</li>
        )}
      </ul>
      {unchanged > 0 && <p class="quiet">{count(unchanged)} of the selected runs are not concerned.</p>}
      {results === null ? (
        <Command text={`tarmac ${name} ${concerned.map(({ id }) => id).join(" ")}`} />
      ) : (
        <p role="status">
          {count(results.length - failed.length)} of {count(concerned.length)} done
          {failed.length > 0 && `, ${count(failed.length)} refused`}
        </p>
      )}
      {failed.length > 0 && (
        <ul class="failed">
          {failed.map(({ run, problem }) => (
            <li key={run.id}>
              {run.name}: {problem}
            </li>
          ))}
        </ul>
      )}
      <form method="dialog" class="dialog-buttons">
        <button type="submit" class="button">
          {over ? "Close" : "Cancel"}
        </button>
        {results === null && (
          <button
            type="button"
            class="button primary"
            disabled={concerned.length === 0}
            onClick={() => begin().catch(notifyFailure)}
          >
            {title}
          </button>
        )}
      </form>
    </Dialog>
  );
}
