// Changes of the selected runs. Their number and names are shown before, the result of each run after it.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { RunCommand, RunResult } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { type Form, FormBody, type Values } from "../../parts/form.tsx";
import { LABEL_INPUT, labelChange } from "../../parts/labels.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import { commandLine } from "../../parts/shell.ts";
import type { NamedRun } from "./selection.ts";
import { statusOf } from "./status.ts";

export type ActName = RunCommand | "label";

interface Act {
  verb: string;
  /** Whether it would change a run with this status. */
  concerns: (status: string) => boolean;
}

const ENDED = ["completed", "failed", "stopped"];

export const ACTS: Record<ActName, Act> = {
  stop: { verb: "Stop", concerns: (status) => !ENDED.includes(status) },
  pause: {
    verb: "Pause",
    concerns: (status) => ![...ENDED, "paused", "pausing", "stopping"].includes(status),
  },
  resume: { verb: "Resume", concerns: (status) => /^paus/.test(status) },
  label: { verb: "Label", concerns: () => true },
};

const NAMES_SHOWN = 12;
const FAILURES_SHOWN = 200;
const MOST_AT_ONCE = 1_000;

interface Props {
  name: ActName;
  /** The runs, or what reads them, once: no other run is changed. */
  runs: NamedRun[] | (() => Promise<NamedRun[]>);
  onClose: () => void;
}

export function ActDialog({ name, runs: given, onClose }: Props): JSX.Element {
  const { verb, concerns } = ACTS[name];
  const [selected, setSelected] = useState(Array.isArray(given) ? given : null);
  const [done, setDone] = useState(0);
  const results = useRef<RunResult[]>([]);
  useEffect(() => {
    if (Array.isArray(given)) return;
    given().then(setSelected, (problem) => {
      notifyFailure(problem);
      onClose();
    });
  }, []);
  const runs = selected?.filter((run) => concerns(statusOf(run))) ?? [];
  const ids = runs.map(({ id }) => id);
  const others = (selected?.length ?? 0) - runs.length;

  async function send({ label = "" }: Values): Promise<JSX.Element> {
    while (results.current.length < ids.length) {
      const first = results.current.length;
      const part = ids.slice(first, first + MOST_AT_ONCE);
      const found =
        name === "label"
          ? await ask("PATCH /runs/labels", { body: { labels: labelChange(label), runs: part } })
          : await ask("POST /runs/commands", { body: { command: name, runs: part } });
      results.current.push(...found);
      setDone(results.current.length);
    }
    return <Results runs={runs} results={results.current} />;
  }

  const text = (
    <>
      {selected === null && <p class="quiet">Reading the selected runs…</p>}
      <Names runs={runs} />
      {others > 0 && <p class="quiet">{count(others)} of the selected runs are not concerned.</p>}
      {done > 0 && (
        <p role="status">
          {count(done)} of {count(ids.length)} done…
        </p>
      )}
    </>
  );
  const title = `${verb} ${selected === null ? "the selected runs" : runsText(runs.length)}`;
  const form: Form = {
    title,
    ...(ids.length > 0 && { verb: title }),
    text,
    fields: name === "label" ? [["label", "Label", "", LABEL_INPUT]] : [],
    command: ({ label = "" }) => (ids.length > MOST_AT_ONCE ? null : commandOf(name, ids, label)),
    send,
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <FormBody form={form} onClose={onClose} />
    </Dialog>
  );
}

function runsText(number: number): string {
  return number === 1 ? "1 run" : `${count(number)} runs`;
}

function commandOf(name: ActName, ids: string[], label: string): string | null {
  if (ids.length === 0) return null;
  if (name !== "label") return commandLine(name, ...ids);
  const change = label || "KEY=VALUE";
  if (ids.length === 1) return commandLine(name, ids[0], change);
  const one = commandLine(name, "RUN", change).replace(" RUN ", " $run ");
  return `for run in ${ids.join(" ")}; do ${one}; done`;
}

function Names({ runs }: { runs: NamedRun[] }): JSX.Element {
  return (
    <ul class="named-runs">
      {runs.slice(0, NAMES_SHOWN).map((run) => (
        <li key={run.id}>
          {run.name} <code class="quiet">{run.id}</code>
        </li>
      ))}
      {runs.length > NAMES_SHOWN && <li class="quiet">and {count(runs.length - NAMES_SHOWN)} more</li>}
    </ul>
  );
}

function Results({ runs, results }: { runs: NamedRun[]; results: RunResult[] }): JSX.Element {
  const failed = results.flatMap(({ error }, index) => (error ? [{ run: runs[index], error }] : []));
  return (
    <>
      <p role="status">
        {count(results.length - failed.length)} of {count(results.length)} done
        {failed.length > 0 && `, ${count(failed.length)} refused`}
      </p>
      <ul class="failed" hidden={failed.length === 0}>
        {failed.slice(0, FAILURES_SHOWN).map(({ run, error }) => (
          <li key={run?.id}>
            {run?.name} <code>{run?.id}</code>: {error.message}
          </li>
        ))}
        {failed.length > FAILURES_SHOWN && <li>and {count(failed.length - FAILURES_SHOWN)} more</li>}
      </ul>
    </>
  );
}
