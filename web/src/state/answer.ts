// The answer to a question, kept while it is asked again: pages show the last one until the next has come.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { onChanges } from "../api/live.ts";
import { type Answer, ask, type Details, type Operation, Refusal } from "../api/request.ts";

interface When {
  /** Ask only while this holds. */
  when?: boolean;
  /** Ask again this often while the tab is visible; not for 0. */
  everyMs?: number;
  /** Ask again when one of these runs changes; "all" for any run. */
  runs?: string[] | "all";
}

const LEAST_MS = 500;
const changesHere = signal(0);

/** Ask all questions again: a person has changed something on this page. */
export function renew(): void {
  changesHere.value += 1;
}

/** Ask the server, and again as `details` say. */
export function useAnswer<K extends Operation>(operation: K, details: Details<K> & When = {}) {
  const { when = true, everyMs = 0, runs, ...asked } = details;
  const key = JSON.stringify([operation, asked, when]);
  const none = { key, data: null as Answer<K> | null, problem: null as Refusal | null };
  const [state, setState] = useState(none);

  useEffect(() => {
    if (!when) return;
    let leave = new AbortController();
    let askedAt = 0;
    let timer: number | undefined;
    function read(): void {
      leave.abort();
      leave = new AbortController();
      const { signal } = leave;
      askedAt = Date.now();
      ask(operation, { ...asked, signal }).then(
        (data) => signal.aborted || setState({ key, data, problem: null }),
        (problem) => {
          if (problem instanceof Refusal)
            setState((last) => ({ key, data: last.key === key ? last.data : null, problem }));
          else if (!signal.aborted) throw problem;
        },
      );
    }
    function again(): void {
      clearTimeout(timer);
      timer = setTimeout(read, Math.max(0, askedAt + LEAST_MS - Date.now()));
    }
    read();
    const every = everyMs > 0 && setInterval(() => document.hidden || again(), everyMs);
    const [part = ""] = operation.match(/\/[^/]*/) ?? [];
    const stop = onChanges(({ fields, rows, more, paths }) => {
      const at = fields.indexOf("id");
      const named = () => more || rows.some((row) => runs === "all" || runs?.includes(String(row[at])));
      if (paths.includes(part) || (runs && named())) again();
    });
    return () => {
      leave.abort();
      clearTimeout(timer);
      clearInterval(every || undefined);
      stop();
    };
  }, [key, everyMs, JSON.stringify(runs), changesHere.value]);
  return state.key === key ? state : none;
}
