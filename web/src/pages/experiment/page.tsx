// One experiment, `/experiment/ID`: its progress and best trial, trials, plots and source; and commands to it.

import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { Experiment, Trial } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { count } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Command } from "../../parts/command.tsx";
import { type Form, FormButton, useForm } from "../../parts/form.tsx";
import { Tabs } from "../../parts/list.tsx";
import { Problem } from "../../parts/problem.tsx";
import { commandLine } from "../../parts/shell.ts";
import { Status } from "../../parts/status.tsx";
import { useAnswer } from "../../state/answer.ts";
import { go } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { statusOf as runStatus } from "../runs/status.ts";
import { Plots } from "./plots.tsx";
import { Trials } from "./trials.tsx";
import { differing, flat, valueText } from "./values.ts";

/** What each tab gets; `best` are the trials with a metric, the best first. */
export interface TabProps {
  experiment: Experiment;
  trials: Trial[];
  best: Trial[];
}

const ASK_MS = 2_000;
const TABS: Record<string, ComponentType<TabProps>> = { "": Trials, plots: Plots, source: Source };

/** The commands to an experiment: the verb, the word of the command line, the states, and what comes of it. */
const ACTS = [
  ["Pause", "pause", "active", "Its trials save and leave their slots."],
  ["Resume", "activate", "paused", "Its trials are queued again."],
  ["Stop", "stop", "active paused", "The search and its trials end for good."],
  ["Continue", "continue", "ended", "Trials that failed or were stopped are tried again."],
  ["Remove", "rm", "ended", "The runs of its trials, with logs and artifacts, are deleted."],
] as const;

export function ExperimentPage({ rest }: PageProps): JSX.Element {
  const [id = "", tab = ""] = rest.split("/");
  const asked = { path: { experiment: id }, everyMs: ASK_MS };
  const { data: experiment, problem, again } = useAnswer("GET /experiments/{experiment}", asked);
  const { data: trials } = useAnswer("GET /experiments/{experiment}/trials", asked);
  const { show, dialog } = useForm(again);
  useEffect(() => {
    document.title = `${experiment?.name ?? "Experiment"} · tarmac`;
  }, [experiment?.name]);
  if (problem) return <Problem problem={problem} />;
  if (!experiment || !trials) return <p class="loading">Loading…</p>;
  const sign = experiment.search.smaller_is_better ? 1 : -1;
  const best = trials.filter((trial) => trial.best !== null);
  best.sort((one, other) => sign * ((one.best ?? 0) - (other.best ?? 0)));
  const Shown = TABS[tab] ?? Trials;
  const shown = { experiment, trials, best };
  const acts = ACTS.filter(([, , states]) => may("control") && states.split(" ").includes(experiment.state));
  return (
    <article class="page">
      <div class="bar">
        <h1>{experiment.name}</h1>
        <Status value={runStatus(experiment)} />
        <code class="quiet">{experiment.id}</code>
        <span class="bar-end">
          {acts.map((act) => (
            <FormButton key={act[0]} form={formOf(act, experiment)} show={show} />
          ))}
        </span>
      </div>
      <Summary {...shown} />
      <Tabs of={`/experiment/${id}`} tabs={{ "": "Trials", plots: "Plots", source: "Source" }} chosen={tab} />
      <Shown {...shown} />
      {dialog}
    </article>
  );
}

function formOf([verb, word, , text]: (typeof ACTS)[number], { id, name }: Experiment): Form {
  const operation =
    word === "rm" ? "DELETE /experiments/{experiment}" : (`POST /experiments/{experiment}/${word}` as const);
  return {
    verb,
    title: `${verb} ${name}`,
    text,
    destroys: word === "rm" || word === "stop",
    command: () => commandLine("experiment", word, id),
    send: () => ask(operation, { path: { experiment: id } }).then(() => word === "rm" && go("/experiments")),
  };
}

/** The state of a trial: how it ended, or that of its run. */
export function statusOf(trial: Trial): string {
  return trial.state === "ended" ? (trial.end ?? "ended") : (trial.run_state ?? trial.state);
}

function Summary({ experiment, trials, best: [best] }: TabProps): JSX.Element {
  const { progress, message, user, project, search } = experiment;
  const share = `${Math.round(progress * 100)}%`;
  const all = count(search.max_trials ?? trials.length);
  const counts: Record<string, number> = {};
  for (const status of trials.map(statusOf)) counts[status] = (counts[status] ?? 0) + 1;
  const values = flat(best?.parameters ?? {});
  return (
    <div class="summary">
      <p>
        <Bar share={progress} label={`Progress ${share}`} /> {share} of {all} trials
        <Pairs of={{ ...counts, search: search.method, user, project }} />
      </p>
      {message && <p>{message}</p>}
      {best && (
        <p>
          Best: <a href={`/run/${best.run}`}>{best.name}</a> {search.metric}{" "}
          <strong>{valueText(best.best)}</strong>
          <Pairs of={Object.fromEntries(differing(trials).map((name) => [name, values[name]]))} />
        </p>
      )}
    </div>
  );
}

function Pairs({ of }: { of: Record<string, unknown> }): JSX.Element {
  const shown = Object.entries(of).map(([name, value]) => (
    <span key={name} class="pair">
      <span class="quiet">{name}</span> {valueText(value)}
    </span>
  ));
  return <>{shown}</>;
}

function Source({ experiment: { id, source } }: TabProps): JSX.Element {
  return (
    <div class="sheet">
      <pre class="source">{source || "(no file)"}</pre>
      <Command text={commandLine("experiment", "show", id)} />
      <p class="quiet">Another search of the same file and code:</p>
      <Command text={commandLine("experiment", "fork", id)} />
    </div>
  );
}
