// Changes of the selected runs. Their number and names are shown before, the result of each run after it.

import { signal } from "@preact/signals";
import { ask } from "../../api/request.ts";
import type { RunCommand, RunResult } from "../../api/types.ts";
import { Button } from "../../parts/controls.tsx";
import { closeForm, type Form, show, type Values } from "../../parts/form.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { commandLine, LABEL_INPUT, labelChange, type Words } from "../../parts/shell.ts";
import { statusOf } from "../../parts/shown.tsx";
import { count } from "../../parts/text.ts";
import type { NamedRun } from "./source.ts";

type ActName = RunCommand | "label";

const ENDED = ["completed", "failed", "stopped"];

/** What the button of each act says, and whether it would change a run with this status. */
const ACTS: Record<ActName, [verb: string, concerns: (status: string) => boolean]> = {
  stop: ["Stop", (status) => !ENDED.includes(status)],
  pause: ["Pause", (status) => ![...ENDED, "paused", "pausing", "stopping"].includes(status)],
  resume: ["Resume", (status) => /^paus/.test(status)],
  label: ["Label", () => true],
};

const NAMES_SHOWN = 12;
const FAILURES_SHOWN = 200;
const MOST_AT_ONCE = 1_000;

interface Props {
  /** The runs, or what reads them, once: no other run is changed. */
  runs: NamedRun[] | (() => Promise<NamedRun[]>);
  /** Only the acts that would change one with this status. */
  status?: string;
  class?: string;
}

/** The buttons of what can be done with runs. */
export function Acts({ runs, status, class: kind = "button" }: Props) {
  const acts = Object.entries(ACTS) as [ActName, (typeof ACTS)[ActName]][];
  const shown = acts.filter(([name, [, concerns]]) => !status || (name !== "label" && concerns(status)));
  return shown.map(([name, [verb]]) => (
    <Button key={name} class={kind} label={`${verb}…`} onClick={() => show(formOf(name, runs))} />
  ));
}

function formOf(name: ActName, given: Props["runs"]): () => Form {
  const [verb, concerns] = ACTS[name];
  const selected = signal(Array.isArray(given) ? given : null);
  const done = signal(0);
  const results: RunResult[] = [];
  if (!Array.isArray(given))
    given().then(
      (found) => (selected.value = found),
      (problem) => {
        notifyFailure(problem);
        closeForm();
      },
    );

  async function send(runs: NamedRun[], { label = "" }: Values) {
    while (results.length < runs.length) {
      const part = runs.slice(results.length, results.length + MOST_AT_ONCE).map(({ id }) => id);
      const found =
        name === "label"
          ? await ask("PATCH /runs/labels", { body: { labels: labelChange(label), runs: part } })
          : await ask("POST /runs/commands", { body: { command: name, runs: part } });
      results.push(...found);
      done.value = results.length;
    }
    return <Results runs={runs} results={results} />;
  }

  return () => {
    const runs = selected.value?.filter((run) => concerns(statusOf(run))) ?? [];
    const others = (selected.value?.length ?? 0) - runs.length;
    const number = runs.length === 1 ? "1 run" : `${count(runs.length)} runs`;
    const title = `${verb} ${selected.value === null ? "the selected runs" : number}`;
    return {
      title,
      ...(runs.length > 0 && { verb: title }),
      text: (
        <>
          {selected.value === null && <p class="quiet">Reading the selected runs…</p>}
          <Names runs={runs} />
          {others > 0 && <p class="quiet">{count(others)} of the selected runs are not concerned.</p>}
          {done.value > 0 && <p role="status">{`${count(done.value)} of ${count(runs.length)} done…`}</p>}
        </>
      ),
      fields: name === "label" ? [["label", "Label", "", LABEL_INPUT]] : [],
      command: ({ label }) => commandOf(name, runs, label || "KEY=VALUE"),
      send: (values) => send(runs, values),
    };
  };
}

function commandOf(name: ActName, runs: NamedRun[], label: string): Words | string | null {
  const ids = runs.map(({ id }) => id);
  if (ids.length === 0 || ids.length > MOST_AT_ONCE) return null;
  if (name !== "label") return [name, ...ids];
  if (ids.length === 1) return [name, ...ids, label];
  const one = commandLine(name, "RUN", label).replace(" RUN ", " $run ");
  return `for run in ${ids.join(" ")}; do ${one}; done`;
}

function Names({ runs }: { runs: NamedRun[] }) {
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

function Results({ runs, results }: { runs: NamedRun[]; results: RunResult[] }) {
  const failed = results.flatMap(({ error }, index) => (error ? [{ run: runs[index], error }] : []));
  const refused = failed.length > 0 && `, ${count(failed.length)} refused`;
  return (
    <>
      <p role="status">
        {count(results.length - failed.length)} of {count(results.length)} done{refused}
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
