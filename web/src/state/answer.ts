// The answer to a question, kept while it is asked again: pages show the last one until the next has come.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { onChanges } from "../api/live.ts";
import { type Answer, ask, type Operation, type QueryOf, Refusal } from "../api/request.ts";
import type { Operations } from "../api/types.ts";

interface Details<K extends Operation> {
  path?: Record<string, string>;
  query?: QueryOf<K>;
  body?: Operations[K]["body"];
  /** Ask only while this holds. */
  when?: boolean;
  /** Ask again this often while the tab is visible. */
  everyMs?: number;
  /** Ask again when one of these runs changes; "all" for any run. */
  runs?: string[] | "all";
}

export interface Asked<T> {
  data: T | null;
  problem: Refusal | null;
  again: () => void;
}

const LEAST_MS = 500;

/** Ask the server, and again as `details` say. */
export function useAnswer<K extends Operation>(operation: K, details: Details<K> = {}): Asked<Answer<K>> {
  const { path, query, body, when = true, everyMs, runs } = details;
  const key = JSON.stringify([operation, path, query, body, when]);
  const [state, setState] = useState<{ key: string; data: Answer<K> | null; problem: Refusal | null }>({
    key,
    data: null,
    problem: null,
  });
  const [round, setRound] = useState(0);
  const askedAt = useRef(0);
  const timer = useRef<number | undefined>(undefined);
  const again = useCallback(() => {
    clearTimeout(timer.current);
    const wait = Math.max(0, askedAt.current + LEAST_MS - Date.now());
    timer.current = setTimeout(() => setRound((last) => last + 1), wait);
  }, []);

  useEffect(() => {
    if (!when) return;
    const leave = new AbortController();
    askedAt.current = Date.now();
    const given = { ...(path && { path }), ...(query && { query }), body, signal: leave.signal };
    ask(operation, given).then(
      (data) => setState({ key, data, problem: null }),
      (problem) => {
        if (problem instanceof Refusal)
          setState((last) => ({ key, data: last.key === key ? last.data : null, problem }));
        else if (!leave.signal.aborted) throw problem;
      },
    );
    return () => leave.abort();
  }, [key, round]);

  useEffect(() => {
    if (everyMs === undefined || !when) return;
    const every = setInterval(() => document.hidden || again(), everyMs);
    return () => clearInterval(every);
  }, [key, everyMs]);

  const watched = JSON.stringify(runs);
  useEffect(() => {
    const [part = ""] = operation.match(/\/[^/]*/) ?? [];
    return onChanges(({ fields, rows, more, paths }) => {
      const at = fields.indexOf("id");
      const named = () => more || rows.some((row) => runs === "all" || runs?.includes(String(row[at])));
      if (paths.includes(part) || (runs !== undefined && named())) again();
    });
  }, [operation, watched]);

  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    data: state.key === key ? state.data : null,
    problem: state.key === key ? state.problem : null,
    again,
  };
}
