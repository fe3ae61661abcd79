// The log of one worker of a run, `/run/ID/logs`: followed at its end, searched as a whole, filtered, downloaded.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { urlOf } from "../../../api/request.ts";
import type { LogWindow, Run } from "../../../api/types.ts";
import { bytes, count } from "../../../parts/amounts.ts";
import { Command } from "../../../parts/command.tsx";
import { Problem } from "../../../parts/problem.tsx";
import { useAnswer } from "../../../state/answer.ts";
import { query, setQuery } from "../../../state/place.ts";
import type { TabProps } from "../page.tsx";
import { LogSource, placeOf } from "./source.ts";
import { LogView } from "./view.tsx";
import { logsOf, nameOf, WorkerMenu } from "./workers.tsx";

const FOLLOW_MS = 700;
const ATTEMPTS_MS = 2_000;
const TYPING_MS = 250;
const CHOICE = ["attempt", "role", "replica", "worker", "rank"];

export function Logs({ run }: TabProps): JSX.Element {
  const values = query.value;
  const choice = Object.fromEntries([...values].filter(([name]) => CHOICE.includes(name)));
  const [errors, times] = [values.has("errors"), values.has("times")];
  const text = values.get("text") ?? "";
  const at = values.has("at") ? Number(values.get("at")) : null;
  const [follows, setFollows] = useState(at === null);
  const live = run.state !== "ended";

  const { data: attempts } = useAnswer("GET /runs/{run}/attempts", {
    path: { run: run.id },
    runs: [run.id],
    ...(live && { everyMs: ATTEMPTS_MS }),
  });
  const chosen = attempts?.filter(({ number }) => (choice.attempt ?? String(number)) === String(number));
  const newest = chosen?.findLast((attempt) => logsOf(run, attempt).length > 0)?.number;
  const begun = newest !== undefined;
  const key = JSON.stringify([run.id, choice, errors, times, newest]);
  const source = useMemo(
    () => new LogSource(run.id, { ...choice, ...(errors && { errors }), ...(times && { times }) }),
    [key],
  );
  void source.version.value;
  useEffect(() => () => source.close(), [source]);
  useEffect(() => {
    if (!begun) return;
    setFollows(at === null);
    void source.open(at);
  }, [source, at, begun]);
  useEffect(() => {
    if (follows && !source.ended && source.worker) void source.open(null);
    const again = () => {
      if (!document.hidden && source.worker && source.ended) void source.newer({ keep: !follows });
    };
    if (!live) return again(); // the last lines
    const timer = setInterval(again, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [source, live, follows]);

  const { worker } = source;
  const matches = useMatches(run, worker, text, errors);
  const found = matches?.lines.map(({ offset }) => offset) ?? [];
  function step(up: boolean): void {
    const above = (offset: number) => at === null || offset < at;
    const next = up ? found.findLast(above) : found.find((offset) => offset > (at ?? -1));
    if (next !== undefined) setQuery({ at: String(next) }, { replace: true });
  }
  function follow(): void {
    if (!follows) setQuery({ at: null }, { replace: true });
    setFollows(!follows);
  }
  function set(name: string, on: boolean): void {
    const place = follows ? null : String(at ?? source.place); // the lines in view stay
    setQuery({ [name]: on ? null : "1", at: place });
  }
  const toggles: [title: string, on: boolean, hint: string, change: () => void][] = [
    ["Errors", errors, "Only lines that look like errors", () => set("errors", errors)],
    ["Times", times, "When each line was written", () => set("times", times)],
    ["Follow", follows, "Stay at the end", follow],
  ];
  const download = { path: { run: run.id }, ...(worker && { query: placeOf(worker) }) };
  return (
    <section class="page">
      <div class="bar">
        <WorkerMenu run={run} attempts={attempts ?? []} worker={worker} />
        <search class="filters">
          <input
            type="search"
            placeholder="Search the whole log"
            aria-label="Search the whole log"
            value={text}
            onInput={({ currentTarget }) =>
              setQuery({ text: currentTarget.value || null }, { replace: true })
            }
            onKeyDown={({ key, shiftKey }) => key === "Enter" && step(!shiftKey)}
          />
          <button type="button" class="button" title="Match above (Enter)" onClick={() => step(true)}>
            ↑
          </button>
          <button type="button" class="button" title="Match below (Shift Enter)" onClick={() => step(false)}>
            ↓
          </button>
          <span class="quiet log-count" role="status">
            {matches && countOf(matches, found, at)}
          </span>
        </search>
        {toggles.map(([title, on, hint, change]) => (
          <button
            key={title}
            type="button"
            class="button toggle"
            aria-pressed={on}
            title={hint}
            onClick={change}
          >
            {title}
          </button>
        ))}
        {worker && (
          <a
            class="button"
            download={`${run.name}.${nameOf(worker)}.log`}
            href={urlOf("GET /runs/{run}/log-text", download)}
          >
            Download
          </a>
        )}
      </div>
      {source.problem && <Problem problem={source.problem} />}
      {worker ? (
        <>
          <LogView
            label={`Log of ${nameOf(worker)}`}
            source={source}
            text={text}
            chosen={at}
            ticks={found}
            follows={follows}
            onFollow={setFollows}
          />
          <div class="bar">
            <span class="quiet" role="status">
              {errors && `${count(source.lines.length)} lines in ${source.start > 0 ? "the last " : ""}`}
              {bytes(source.length - (errors ? source.start : 0))}
            </span>
            <span class="bar-end wide">
              <Command text={commandOf(run, worker, times)} />
            </span>
          </div>
        </>
      ) : (
        !source.problem && (
          <p class="loading">{attempts && !begun ? "This run has no log yet." : "Loading…"}</p>
        )
      )}
    </section>
  );
}

/** The lines with a text in the whole log, as they are found. */
function useMatches(run: Run, worker: LogWindow | null, text: string, errors: boolean): LogSource | null {
  const query = worker && text ? { ...placeOf(worker), text, errors } : null;
  const matches = useMemo(() => query && new LogSource(run.id, query), [JSON.stringify(query)]);
  useEffect(() => {
    const timer = setTimeout(() => void matches?.readAll(run.state !== "ended"), TYPING_MS);
    return () => {
      clearTimeout(timer);
      matches?.close();
    };
  }, [matches]);
  void matches?.version.value;
  return matches;
}

function countOf({ worker, full, start, length }: LogSource, found: number[], at: number | null): string {
  if (!worker) return "…";
  const number = found.indexOf(at ?? -1) + 1;
  const all = `${count(found.length)}${full ? "+" : ""}`;
  const read = start > 0 && !full ? ` … ${Math.floor((1 - start / length) * 100)} %` : "";
  return (number > 0 ? `${count(number)} of ${all}` : `${all} lines`) + read;
}

function commandOf(run: Run, { attempt, role, replica, worker, rank }: LogWindow, times: boolean): string {
  const options = `${times ? " -t" : ""}${run.state === "ended" ? "" : " --follow"}`;
  const which = rank === null ? `--role ${role} --replica ${replica} --worker ${worker}` : `--rank ${rank}`;
  return `tarmac logs ${run.id} --attempt ${attempt} ${which}${options}`;
}
