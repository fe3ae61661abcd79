// Compared runs, `/compare?run=ID&run=ID`: their curves, values and parameters.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onChanges } from "../../api/live.ts";
import { ask, Refusal } from "../../api/request.ts";
import type { Run } from "../../api/types.ts";
import { Problem } from "../../parts/problem.tsx";
import { query, setQuery } from "../../state/place.ts";
import { Curves } from "../curves/view.tsx";

const MOST_RUNS = 100;

export function ComparePage(): JSX.Element {
  const references = query.value.getAll("run").slice(0, MOST_RUNS);
  const found = useRuns(references);
  const runs = found.filter((each): each is Run => each !== undefined && !(each instanceof Refusal));
  const problems = found.filter((each) => each instanceof Refusal);
  useEffect(() => {
    document.title = "Compare · tarmac";
  }, []);
  return (
    <article class="page">
      <div class="bar">
        <h1>
          Compare <span class="quiet">{references.length}</span>
        </h1>
        <AddRun references={references} />
      </div>
      {problems.map((problem) => (
        <Problem key={problem.message} problem={problem} />
      ))}
      {references.length === 0 && (
        <p class="message">
          Select runs in <a href="/">the table of runs</a> and compare them, or add one here by its name or
          id.
        </p>
      )}
      {found.includes(undefined) ? (
        <p class="loading">Loading…</p>
      ) : (
        runs.length > 0 && <Curves runs={runs} />
      )}
    </article>
  );
}

function AddRun({ references }: { references: string[] }): JSX.Element {
  function add(event: SubmitEvent): void {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const name = String(new FormData(form).get("run")).trim();
    if (name && !references.includes(name)) setQuery({ run: [...references, name] });
    form.reset();
  }
  return (
    <form class="bar-end" onSubmit={add}>
      <input name="run" placeholder="Name or id" aria-label="Name or id of another run" autocomplete="off" />
      <button type="submit" class="button" disabled={references.length >= MOST_RUNS}>
        Add
      </button>
    </form>
  );
}

/** Runs by names or ids, read again when they change. A name becomes the id of its run in the place. */
function useRuns(references: string[]): (Run | Refusal | undefined)[] {
  const [found, setFound] = useState<ReadonlyMap<string, Run | Refusal>>(new Map());
  const key = JSON.stringify(references);
  useEffect(() => {
    let left = false;
    async function read(reference: string): Promise<void> {
      const answer = await ask("GET /runs/{run}", { path: { run: reference } }).catch((problem) => {
        if (problem instanceof Refusal) return problem;
        throw problem;
      });
      if (left) return;
      const id = answer instanceof Refusal ? reference : answer.id;
      setFound((last) => new Map(last).set(reference, answer).set(id, answer));
      const named = query.peek().getAll("run");
      const ids = [...new Set(named.map((each) => (each === reference ? id : each)))];
      if (id !== reference) setQuery({ run: ids }, { replace: true });
    }
    for (const reference of references) if (!found.has(reference)) void read(reference);
    const stop = onChanges(({ fields, rows, more }) => {
      const at = fields.indexOf("id");
      for (const run of references) if (more || rows.some((row) => row[at] === run)) void read(run);
    });
    return () => {
      left = true;
      stop();
    };
  }, [key]);
  return references.map((reference) => found.get(reference));
}
