// All experiments, `/experiments`; and one, `/experiment/ID`: its progress and best trial, trials, plots and source.

import type { ComponentType } from "preact";
import { ask } from "../../api/request.ts";
import type { Experiment, ExperimentState, Search, Trial } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Button, Link } from "../../parts/controls.tsx";
import { type Form, FormButton } from "../../parts/form.tsx";
import { List, Page, Sheet, Tabs } from "../../parts/list.tsx";
import { sorted } from "../../parts/rows.ts";
import { Age, Bar, Command, Problem, statusOf as runStatus, Status } from "../../parts/shown.tsx";
import { column, GROWS, RIGHT, Table } from "../../parts/table.tsx";
import { count, differing, flat, percent, short } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { go, query, toggled } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { Plots } from "./plots.tsx";

const MOST = 1_000;
const LIST_MS = 3_000;
const STATES: ExperimentState[] = ["active", "paused", "ended"];

export function ExperimentsPage() {
  const state = query.value.getAll("state") as ExperimentState[];
  const mine = query.value.has("mine");
  const project = query.value.get("project");
  const bar = [
    <Button key="mine" label="mine" on={mine} change={{ mine: mine ? null : "yes" }} />,
    ...STATES.map((each) => (
      <Button key={each} label={each} on={state.includes(each)} change={{ state: toggled(state, each) }} />
    )),
    project && <Button key="project" label={`${project} ×`} on change={{ project: null }} />,
  ];
  return (
    <Sheet title="Experiments" bar={bar}>
      <List
        title="Experiments"
        heading={false}
        operation="GET /experiments"
        query={{ state, scope: mine ? "mine" : "all", project, limit: MOST, archived: false }}
        everyMs={LIST_MS}
        runs="all"
        rows={({ experiments }) => experiments}
        columns={[
          ["Name", ({ id, name }) => <a href={`/experiment/${id}`}>{name}</a>],
          ["State", (each) => <Status value={runStatus(each)} />],
          ["Progress", ({ progress }) => progressOf(progress)],
          ["Search", ({ search }) => search.method, "wide"],
          ["Metric", ({ search }) => search.metric && `${aim(search)} ${search.metric}`, "wide"],
          ["User", ({ user }) => user, "wide"],
          ["Project", ({ project: of }) => of, "wide"],
          ["Id", ({ id }) => <code>{id}</code>, "wide"],
          ["Age", ({ created_at }) => <Age at={created_at} />, "right"],
        ]}
        command={["experiment", "ls", mine && "--mine"]}
        empty="No experiment passes these filters. tarmac run train.yaml --sweep lr=1e-3,1e-4 starts one."
      />
    </Sheet>
  );
}

function progressOf(share: number) {
  const text = percent(share);
  return [<Bar key="" share={share} label={`Progress ${text}`} />, ` ${text}`];
}

const aim = ({ smaller_is_better }: Search) => (smaller_is_better ? "min" : "max");

/** What each tab gets; `best` are the trials with a metric, the best first. */
export interface TabProps {
  experiment: Experiment;
  trials: Trial[];
  best: Trial[];
}

const ASK_MS = 2_000;
const TABS: Record<string, [title: string, Shown: ComponentType<TabProps>]> = {
  "": ["Trials", Trials],
  plots: ["Plots", Plots],
  source: ["Source", Source],
};

/** The commands to an experiment: the verb, the word of the command line, the states, and what comes of it. */
const ACTS = [
  ["Pause", "pause", "active", "Its trials save and leave their slots."],
  ["Resume", "activate", "paused", "Its trials are queued again."],
  ["Stop", "stop", "active paused", "The search and its trials end for good."],
  ["Continue", "continue", "ended", "Trials that failed or were stopped are tried again."],
  ["Remove", "rm", "ended", "The runs of its trials, with logs and artifacts, are deleted."],
] as const;

export function ExperimentPage({ rest }: PageProps) {
  const [id = "", tab = ""] = rest.split("/");
  const asked = { path: { experiment: id }, everyMs: ASK_MS };
  const { data: experiment, problem } = useAnswer("GET /experiments/{experiment}", asked);
  const { data: trials } = useAnswer("GET /experiments/{experiment}/trials", asked);
  if (problem || !experiment || !trials) return <Problem problem={problem} />;
  const sign = experiment.search.smaller_is_better ? 1 : -1;
  const best = trials.filter((trial) => trial.best !== null);
  best.sort((one, other) => sign * ((one.best ?? 0) - (other.best ?? 0)));
  const [, Shown] = TABS[tab] ?? ["", Trials];
  const shown = { experiment, trials, best };
  const acts = ACTS.filter(([, , states]) => may("control") && states.split(" ").includes(experiment.state));
  const bar = (
    <>
      <Status value={runStatus(experiment)} />
      <code class="quiet">{experiment.id}</code>
      <span class="bar-end">
        {may("submit") && trials[0] && <Link label="Clone…" href={`/new?search=1&clone=${trials[0].run}`} />}
        {acts.map((act) => (
          <FormButton key={act[0]} form={formOf(act, experiment)} />
        ))}
      </span>
    </>
  );
  return (
    <Page title={experiment.name} bar={bar}>
      <Summary {...shown} />
      <Tabs of={`/experiment/${id}`} tabs={TABS} chosen={tab} />
      <Shown {...shown} />
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
    command: () => ["experiment", word, id],
    send: () => ask(operation, { path: { experiment: id } }).then(() => word === "rm" && go("/experiments")),
  };
}

/** The state of a trial: how it ended, or that of its run. */
function statusOf(trial: Trial): string {
  return trial.state === "ended" ? (trial.end ?? "ended") : (trial.run_state ?? trial.state);
}

function Summary({ experiment, trials, best: [best] }: TabProps) {
  const { progress, message, user, project, search } = experiment;
  const all = count(search.max_trials ?? trials.length);
  const counts = [...Map.groupBy(trials, statusOf)].map(([status, { length }]) => [status, length] as const);
  const values = flat(best?.parameters);
  const names = differing(trials.map(({ parameters }) => parameters));
  return (
    <div class="summary">
      <p>
        {progressOf(progress)} of {all} trials
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

function Pairs({ of }: { of: (readonly [name: string, value: unknown])[] }) {
  return of.map(([name, value]) => (
    <span key={name} class="pair">
      <span class="quiet">{name}</span> {short(value)}
    </span>
  ));
}

type Row = Trial & { status: string };

/** The trials as a table: each parameter that differs, and the metric; the best first. */
function Trials({ experiment, trials }: TabProps) {
  const { metric, smaller_is_better } = experiment.search;
  const sort = query.value.get("sort") ?? (metric ? (smaller_is_better ? "best" : "-best") : "number");
  const rows = trials.map(
    (trial): Row => ({ ...trial, status: statusOf(trial), ...flat({ p: trial.parameters }) }),
  );
  const fieldOf = (row: Row, name: string) => row[name as keyof Row];
  const number = (id: string, title: string, rank: number, width = 96) =>
    column<Row>(id, title, width, rank, (row) => short(fieldOf(row, id)), RIGHT);
  const parameters = differing(trials.map((trial) => trial.parameters));
  const link = ({ run, name }: Row) => <a href={`/run/${run}`}>{name}</a>;
  return (
    <Table
      label="Trials"
      columns={[
        column<Row>("number", "Trial", 150, 0, link, GROWS),
        column<Row>("status", "State", 104, 2, ({ status }) => <Status value={status} />),
        ...parameters.map((each, index) => number(`p.${each}`, each, 3 + index)),
        ...(metric ? [number("best", `Best ${metric}`, 1, 120), number("latest", "Last", 90)] : []),
        number("at", "Step", 80, 72),
      ]}
      rows={sorted(rows, sort, fieldOf)}
      href={({ run }) => `/run/${run}`}
      sort={sort}
      empty="There is no trial yet."
    />
  );
}

function Source({ experiment: { id, source } }: TabProps) {
  return (
    <div class="sheet">
      <pre class="source">{source || "(no file)"}</pre>
      <Command of={["experiment", "show", id]} />
      <p class="quiet">Another search of the same file and code:</p>
      <Command of={["experiment", "fork", id]} />
    </div>
  );
}
