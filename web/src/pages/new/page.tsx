// A new run, `/new`: the file of another one (`?clone=ID`) in an editor, a form of values, and a dry run of both.
// `?search`: a new experiment from the file of a trial.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, type Refusal } from "../../api/request.ts";
import type { DryRun, Problem as Found, Run, SubmissionBody } from "../../api/types.ts";
import { Button } from "../../parts/controls.tsx";
import { Page } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Command, Problem } from "../../parts/shown.tsx";
import { time } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { Editor } from "./editor.tsx";
import { bodyOf, commandOf, type Draft, given, lost, TEMPLATE, type Values, valuesOf } from "./submission.ts";

const PAUSE_MS = 350;
const DRY_RUN = { dry_run: true };

export function NewPage() {
  const clone = query.value.get("clone");
  const path = { run: clone ?? "" };
  const { data: run, problem } = useAnswer("GET /runs/{run}", { path, when: clone !== null });
  const alone = { clone: clone ?? "", dialect: run?.dialect ?? null, source: run?.source ?? "" };
  const read = useAnswer("POST /runs", { query: DRY_RUN, body: alone, when: run !== null });
  if (clone !== null && !read.data && !read.problem) return <Problem problem={problem} />;
  return <NewRun key={clone} run={run} file={read.data as DryRun | null} />;
}

/** `file`: what the text of the run's file alone describes; null if it cannot be read alone. */
function NewRun({ run, file }: { run: Run | null; file: DryRun | null }) {
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
  const usual = { ...valuesOf(run?.spec ?? {}), ...(file && valuesOf(file.run)) };
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
      <Button
        class="button primary bar-end"
        label="Submit"
        disabled={refusal !== null || !may("submit")}
        onClick={() => submit().catch(notifyFailure)}
      />
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
          {preview(found, refusal, (problem) => setRevealed({ ...problem }))}
          <Command of={commandOf(draft)} />
        </section>
        <aside class="facts">
          {run && <Start run={run.id} from={from} />}
          {fieldsOf(usual, values, (id, value) => setValues((last) => ({ ...last, [id]: value })))}
        </aside>
      </div>
    </Page>
  );
}

/** The choice of a checkpoint of a run. */
function Start({ run, from }: { run: string; from: string }) {
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

const GROUPS: Record<string, string> = { parameters: "Parameters", label: "Labels", env: "Variables" };

/** Values that replace those of the file. An empty field leaves the file's value, which is in `usual`. */
function fieldsOf(usual: Values, values: Values, onValue: (id: string, value: string) => void) {
  const ids = Object.keys({ ...usual, ...values });
  const groups = Map.groupBy(ids, (id) => GROUPS[id.replace(/\..*/, "")] ?? "Instead of the file's");
  return (
    <>
      {[...groups].map(([title, fields]) => (
        <fieldset key={title} class="note-form">
          <legend>{title}</legend>
          {fields.map((id) => (
            <label key={id} class="field">
              <span>{id.slice(id.indexOf(".") + 1)}</span>
              <input
                value={values[id] ?? ""}
                placeholder={usual[id] ?? ""}
                autocomplete="off"
                spellcheck={false}
                onInput={({ currentTarget }) => onValue(id, currentTarget.value)}
              />
            </label>
          ))}
        </fieldset>
      ))}
      <input
        aria-label="Another variable, NAME=VALUE"
        placeholder="Another variable: NAME=VALUE"
        onChange={({ currentTarget }) => {
          const [, name, value = ""] = /^(\w+)=(.+)$/.exec(currentTarget.value) ?? [];
          if (!name) return;
          onValue(`env.${name}`, value);
          currentTarget.value = "";
        }}
      />
    </>
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

const SHOWN = 8;

/** What it would start now, and where: the server's dry run; or why it cannot be submitted. */
function preview(found: DryRun | null, refusal: Refusal | null, reveal: (problem: Found) => void) {
  if (refusal)
    return (
      <section class="panel cause" aria-label="Problems">
        <Problem problem={refusal} reveal={reveal} />
      </section>
    );
  if (!found) return <p class="quiet">Checking…</p>;
  const { reasons, placement, largest, warnings, nodes, rendered } = found;
  const commands = nodes.flatMap(({ node, workers }) =>
    workers.map(({ role, replica, index, argv }) => `${node} ${role}.${replica}.${index}: ${argv.join(" ")}`),
  );
  const texts = [
    ...reasons.slice(0, SHOWN).map(({ text }) => text),
    ...(largest ? [`The largest request that fits: ${largest}`] : []),
    ...warnings,
  ];
  return (
    <section
      class={reasons.length > 0 || !placement ? "panel waits" : "panel"}
      aria-label="Dry run"
      aria-live="polite"
    >
      <h2>{headline(found)}</h2>
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
      {commands.length > 0 && (
        <details>
          <summary>{commands.length === 1 ? "1 worker" : `${commands.length} workers`}</summary>
          <pre class="source">{[...commands, rendered].slice(0, 100).join("\n")}</pre>
        </details>
      )}
    </section>
  );
}

function headline({ placement, reasons, run }: DryRun): string {
  const would = run.search ? "A search: its first trial would" : "Would";
  if (!placement) return `${would} be placed by its cluster`;
  const nodes = placement.map(({ node, slots }) =>
    slots.length === 0 ? node : `${node} (${slots.length === 1 ? "1 slot" : `${slots.length} slots`})`,
  );
  const where = nodes.length > SHOWN ? `${nodes.length} nodes` : nodes.join(", ");
  return `${would} ${reasons.length > 0 ? "wait, then start" : "start now"} on ${where}`;
}
