// Compared runs, `/compare?run=ID&run=ID`: their curves, values and parameters.

import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { Page } from "../../parts/list.tsx";
import { Problem } from "../../parts/shown.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query, setQuery } from "../../state/place.ts";
import { Curves } from "../curves/view.tsx";

const MOST_RUNS = 100;

export function ComparePage() {
  const references = query.value.getAll("run").slice(0, MOST_RUNS);
  const [found, setFound] = useState<ReadonlyMap<string, Run | null>>(new Map());
  const runs = references.flatMap((each) => found.get(each) ?? []);
  /** Keep the answer about a run, null if it was refused. A name becomes the id of its run in the place. */
  function take(reference: string, run: Run | null): void {
    const id = run?.id ?? reference;
    setFound((last) => new Map(last).set(reference, run).set(id, run));
    if (id === reference) return;
    const ids = query.peek().getAll("run");
    const named = ids.map((each) => (each === reference ? id : each));
    setQuery({ run: [...new Set(named)] }, { replace: true });
  }
  function add(event: SubmitEvent): void {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const name = String(new FormData(form).get("run")).trim();
    if (name && !references.includes(name)) setQuery({ run: [...references, name] });
    form.reset();
  }
  const bar = (
    <>
      <span class="quiet">{references.length}</span>
      <form class="bar-end" onSubmit={add}>
        <input
          name="run"
          placeholder="Name or id"
          aria-label="Name or id of another run"
          autocomplete="off"
        />
        <button type="submit" class="button" disabled={references.length >= MOST_RUNS}>
          Add
        </button>
      </form>
    </>
  );
  return (
    <Page title="Compare" bar={bar}>
      {references.map((each) => (
        <Compared key={each} reference={each} onFound={take} />
      ))}
      {references.length === 0 ? (
        <p class="message">
          Select runs in <a href="/">the table of runs</a> and compare them, or add one here by its name or
          id.
        </p>
      ) : references.every((each) => found.has(each)) ? (
        runs.length > 0 && <Curves runs={runs} />
      ) : (
        <p class="loading">Loading…</p>
      )}
    </Page>
  );
}

interface ComparedProps {
  reference: string;
  onFound: (reference: string, run: Run | null) => void;
}

/** One of the runs, read again when it changes: shown if it cannot be. */
function Compared({ reference, onFound }: ComparedProps) {
  const asked = { path: { run: reference }, runs: [reference] };
  const { data, problem } = useAnswer("GET /runs/{run}", asked);
  useEffect(() => {
    if (data || problem) onFound(reference, data);
  }, [data, problem]);
  return problem && <Problem problem={problem} />;
}
