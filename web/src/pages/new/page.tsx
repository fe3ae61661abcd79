// A new run, `/new`: the file of another one (`?clone=ID`) in an editor, a form of values, and a dry run of both.
// `?search`: a new experiment from the file of a trial.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, type Refusal } from "../../api/request.ts";
import type { DryRun, Problem as Found, Run, SubmissionBody } from "../../api/types.ts";
import { time } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Page } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { Editor } from "./editor.tsx";
import { Form } from "./form.tsx";
import { Preview } from "./preview.tsx";
import { bodyOf, commandOf, type Draft, given, lost, TEMPLATE, type Values, valuesOf } from "./submission.ts";

const PAUSE_MS = 350;
const DRY_RUN = { dry_run: true };

export function NewPage(): JSX.Element {
  const clone = query.value.get("clone");
  const path = { run: clone ?? "" };
  const { data: run, problem } = useAnswer("GET /runs/{run}", { path, when: clone !== null });
  const alone = { clone: clone ?? "", dialect: run?.dialect ?? null, source: run?.source ?? "" };
  const read = useAnswer("POST /runs", { query: DRY_RUN, body: alone, when: run !== null });
  if (clone !== null && !read.data && !read.problem) return <Problem problem={problem} />;
  return <NewRun key={clone} run={run} file={read.data as DryRun | null} />;
}

/** `file`: what the text of the run's file alone describes; null if it cannot be read alone. */
function NewRun({ run, file }: { run: Run | null; file: DryRun | null }): JSX.Element {
  const search = query.value.has("search");
  const first = useMemo(() => (run && file && !search ? given(run, file) : {}), []);
  const original = run ? run.source : TEMPLATE;
  const [text, setText] = useState(original);
  const [values, setValues] = useState<Values>(first);
  const [revealed, setRevealed] = useState<Found | null>(null);
  const fixed = run !== null && file === null;
  const from = query.value.get("from") ?? "";
  // An emptied field means the value of the file: the run's own value was another one.
  const edited = !fixed && (search || text !== original || Object.keys(first).some((id) => !values[id]));
  const gone = edited && run && file ? lost(run, file) : [];
  const draft: Draft = { run, text, edited, values, from };
  const body = bodyOf(draft);
  const key = useMemo(() => crypto.randomUUID(), [JSON.stringify(body)]);
  const { found, refusal } = useDryRun(body);

  async function submit(): Promise<void> {
    const sent = { body: { ...body, idempotency_key: key } };
    const checked = (await ask("POST /runs", { query: DRY_RUN, body })) as unknown as DryRun;
    if (checked.run.search) go(`/experiment/${(await ask("POST /experiments", sent)).id}`);
    else go(`/run/${(await ask("POST /runs", sent)).id}`);
  }

  const bar = (
    <>
      {run && (
        <span class="quiet">
          from <a href={`/run/${run.id}`}>{run.name}</a> {run.code_digest && "with its code"}
        </span>
      )}
      <span class="bar-end">
        <button
          type="button"
          class="button primary"
          disabled={refusal !== null || !may("submit")}
          onClick={() => submit().catch(notifyFailure)}
        >
          Submit
        </button>
      </span>
    </>
  );
  return (
    <Page title={found?.run.search ? "New experiment" : "New run"} bar={bar}>
      <div class="columns">
        <section class="main-column">
          {fixed && <p class="quiet">No file to edit: the form alone changes the new run.</p>}
          <Editor {...{ text, fixed, revealed }} onText={setText} problems={refusal?.problems ?? []} />
          {gone.length > 0 && (
            <p class="warning">{`Only on the command line of ${run?.name}: ${gone.join(", ")}`}</p>
          )}
          <Preview {...{ found, refusal }} reveal={(problem) => setRevealed({ ...problem })} />
          <Command text={commandOf(draft)} />
        </section>
        <aside class="facts">
          {run && <Start run={run.id} from={from} />}
          <Form
            usual={{ ...(run && valuesOf(run.spec)), ...(file && valuesOf(file.run)) }}
            values={values}
            onValue={(id, value) => setValues((last) => ({ ...last, [id]: value }))}
          />
        </aside>
      </div>
    </Page>
  );
}

/** The choice of a checkpoint of a run. */
function Start({ run, from }: { run: string; from: string }): JSX.Element {
  const { data } = useAnswer("GET /artifacts", { query: { run } });
  const kept = data?.filter(({ kind }) => kind === "checkpoint") ?? [];
  const names = new Map([
    ["", "no checkpoint"],
    ["last", "its last checkpoint"],
    ...kept.map(({ id, created_at }) => [id, `${id}, ${time(created_at)}`] as const),
  ]);
  if (!names.has(from)) names.set(from, from);
  return (
    <label class="field">
      <span>Begins with</span>
      <select
        value={from}
        onChange={({ currentTarget: { value } }) => setQuery({ from: value || null }, { replace: true })}
      >
        {[...names].map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The dry run of a submission, or why it is refused, a moment after its last change; before that, the former. */
function useDryRun(body: SubmissionBody): { found: DryRun | null; refusal: Refusal | null } {
  const [settled, setSettled] = useState(body);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(body), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [JSON.stringify(body)]);
  const asked = useAnswer("POST /runs", { query: DRY_RUN, body: settled });
  const last = useRef(asked);
  if (asked.data || asked.problem) last.current = asked;
  const { data, problem } = last.current;
  return { found: problem ? null : (data as DryRun | null), refusal: problem };
}
