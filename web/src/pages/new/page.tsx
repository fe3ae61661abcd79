// A new run, `/new`: the file of another one (`?clone=ID`) in an editor, a form of values, and a dry run of both.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, Refusal } from "../../api/request.ts";
import type { DryRun, Problem as Found, Run, SubmissionBody } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { Editor } from "./editor.tsx";
import { Form, Start } from "./form.tsx";
import { Preview } from "./preview.tsx";
import { bodyOf, commandOf, type Draft, given, lost, TEMPLATE, type Values, valuesOf } from "./submission.ts";

const PAUSE_MS = 350;

export function NewPage(): JSX.Element {
  const clone = query.value.get("clone");
  const path = { run: clone ?? "" };
  const { data: run, problem } = useAnswer("GET /runs/{run}", { path, when: clone !== null });
  const [file, setFile] = useState<DryRun | null>();
  useEffect(() => {
    document.title = "New run · tarmac";
    if (run?.source)
      dryRun({ clone: run.id, dialect: run.dialect, source: run.source }).then(setFile, () => setFile(null));
    else if (run) setFile(null);
  }, [run?.id]);
  if (problem) return <Problem problem={problem} />;
  if (clone !== null && (!run || file === undefined)) return <p class="loading">Loading…</p>;
  return <NewRun key={clone} run={run} file={file ?? null} />;
}

/** `file`: what the text of the run's file alone describes; null if it cannot be read alone. */
function NewRun({ run, file }: { run: Run | null; file: DryRun | null }): JSX.Element {
  const first = useMemo(() => (run && file ? given(run, file) : {}), []);
  const original = run ? run.source : TEMPLATE;
  const [text, setText] = useState(original);
  const [values, setValues] = useState<Values>(first);
  const [sends, setSends] = useState(false);
  const reveal = useRef<(problem: Found) => void>(() => {});
  const key = useRef({ body: "", value: "" });
  const fixed = run !== null && file === null;
  const from = query.value.get("from") ?? "";
  // An emptied field means the value of the file: the run's own value was another one.
  const edited = !fixed && (text !== original || Object.keys(first).some((id) => !values[id]));
  const gone = edited && run && file ? lost(run, file) : [];
  const draft: Draft = { run, text, edited, values, from };
  const body = bodyOf(draft);
  const { found, refusal } = useDryRun(body);
  const kept = useAnswer("GET /artifacts", { query: { run: run?.id ?? null }, when: run !== null }).data;

  async function submit(): Promise<void> {
    setSends(true);
    const sent = JSON.stringify(body);
    if (key.current.body !== sent) key.current = { body: sent, value: crypto.randomUUID() };
    try {
      const made = await ask("POST /runs", { body: { ...body, idempotency_key: key.current.value } });
      go(`/run/${made.id}`);
    } catch (failure) {
      notifyFailure(failure);
      setSends(false);
    }
  }

  return (
    <article class="page">
      <div class="bar">
        <h1>New run</h1>
        {run && (
          <span class="quiet">
            from <a href={`/run/${run.id}`}>{run.name}</a> {run.code_digest && "with its code"}
          </span>
        )}
        <span class="bar-end">
          <button
            type="button"
            class="button primary"
            disabled={sends || refusal !== null || !may("submit")}
            onClick={() => void submit()}
          >
            Submit
          </button>
        </span>
      </div>
      <div class="columns">
        <section class="main-column">
          {fixed && <p class="quiet">No file to edit: the form alone changes the new run.</p>}
          <Editor
            text={text}
            onText={setText}
            problems={refusal?.problems ?? []}
            fixed={fixed}
            onReady={(to) => {
              reveal.current = to;
            }}
          />
          {gone.length > 0 && (
            <p class="warning">{`Only on the command line of ${run?.name}: ${gone.join(", ")}`}</p>
          )}
          <Preview found={found} refusal={refusal} onProblem={(problem) => reveal.current(problem)} />
          <Command text={commandOf(draft)} />
        </section>
        <aside class="facts">
          {run && (
            <Start
              from={from}
              onFrom={(next) => setQuery({ from: next || null }, { replace: true })}
              checkpoints={kept?.filter(({ kind }) => kind === "checkpoint") ?? []}
            />
          )}
          <Form
            usual={{ ...(run && valuesOf(run.spec)), ...(file && valuesOf(file.run)) }}
            values={values}
            onValue={(id, value) => setValues((last) => ({ ...last, [id]: value }))}
          />
        </aside>
      </div>
    </article>
  );
}

interface Result {
  found: DryRun | null;
  refusal: Pick<Refusal, "message" | "hint" | "problems"> | null;
}

/** What the server says of a submission, a moment after its last change: problems of the text, then a dry run. */
function useDryRun(body: SubmissionBody): Result {
  const [result, setResult] = useState<Result>({ found: null, refusal: null });
  const sent = JSON.stringify(body);
  useEffect(() => {
    const leave = new AbortController();
    const { source, dialect } = body;
    async function look(): Promise<Result> {
      if (typeof source === "string") {
        const checked = { source, dialect: dialect ?? null };
        const { problems } = await ask("POST /check", { body: checked, signal: leave.signal });
        if (problems.length > 0) return { found: null, refusal: { message: "", hint: null, problems } };
      }
      return { found: await dryRun(body, leave.signal), refusal: null };
    }
    function refused(problem: unknown): void {
      if (problem instanceof Refusal) setResult({ found: null, refusal: problem });
      else if (!leave.signal.aborted) throw problem;
    }
    const timer = setTimeout(() => look().then(setResult, refused), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      leave.abort();
    };
  }, [sent]);
  return result;
}

async function dryRun(body: SubmissionBody, signal?: AbortSignal): Promise<DryRun> {
  const query = { dry_run: true };
  return (await ask("POST /runs", { query, body, ...(signal ? { signal } : {}) })) as unknown as DryRun;
}
