// One experiment, `/experiment/ID`: its progress and best trial, trials, plots and source; and commands to it.

import type { ComponentType, JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Experiment, Trial } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { count } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Command } from "../../parts/command.tsx";
import { type Form, FormButton, useForm } from "../../parts/form.tsx";
import { Page, Tabs } from "../../parts/list.tsx";
import { Problem } from "../../parts/problem.tsx";
import { commandLine } from "../../parts/shell.ts";
import { Status } from "../../parts/status.tsx";
import { differing, flat, short } from "../../parts/values.ts";
import { useAnswer } from "../../state/answer.ts";
import { go } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { statusOf as runStatus } from "../runs/status.ts";
import { Plots } from "./plots.tsx";
import { Trials } from "./trials.tsx";

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
  if (problem || !experiment || !trials) return <Problem problem={problem} />;
  const sign = experiment.search.smaller_is_better ? 1 : -1;
  const best = trials.filter((trial) => trial.best !== null);
  best.sort((one, other) => sign * ((one.best ?? 0) - (other.best ?? 0)));
  const Shown = TABS[tab] ?? Trials;
  const shown = { experiment, trials, best };
  const acts = ACTS.filter(([, , states]) => may("control") && states.split(" ").includes(experiment.state));
  const bar = (
    <>
      <Status value={runStatus(experiment)} />
      <code class="quiet">{experiment.id}</code>
      <span class="bar-end">
        {may("submit") && trials[0] && (
          <a class="button" href={`/new?search=1&clone=${trials[0].run}`}>
            Clone…
          </a>
        )}
        {acts.map((act) => (
          <FormButton key={act[0]} form={formOf(act, experiment)} show={show} />
        ))}
      </span>
    </>
  );
  return (
    <Page title={experiment.name} bar={bar}>
      <Summary {...shown} />
      <Tabs of={`/experiment/${id}`} tabs={{ "": "Trials", plots: "Plots", source: "Source" }} chosen={tab} />
      <Shown {...shown} />
      {dialog}
    </Page>
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
  const counts = [...Map.groupBy(trials, statusOf)].map(([status, { length }]) => [status, length] as const);
  const values = flat(best?.parameters);
  const names = differing(trials.map(({ parameters }) => parameters));
  return (
    <div class="summary">
      <p>
        <Bar share={progress} label={`Progress ${share}`} /> {share} of {all} trials
        <Pairs of={[...counts, ["search", search.method], ["user", user], ["project", project]]} />
      </p>
      {message && <p>{message}</p>}
      {best && (
        <p>
          Best: <a href={`/run/${best.run}`}>{best.name}</a> {search.metric}{" "}
          <strong>{short(best.best)}</strong>
          <Pairs of={names.map((name) => [name, values[name]])} />
        </p>
      )}
    </div>
  );
}

function Pairs({ of }: { of: (readonly [name: string, value: unknown])[] }): JSX.Element {
  const shown = of.map(([name, value]) => (
    <span key={name} class="pair">
      <span class="quiet">{name}</span> {short(value)}
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
