// The log of one worker of a run, `/run/ID/logs`: followed at its end, searched as a whole, filtered, downloaded.

import { useEffect, useMemo, useState } from "preact/hooks";
import { urlOf } from "../../../api/request.ts";
import type { Attempt, LogWindow, Run } from "../../../api/types.ts";
import { Button, Input, Link, Menu } from "../../../parts/controls.tsx";
import type { Words } from "../../../parts/shell.ts";
import { Command, Problem } from "../../../parts/shown.tsx";
import { bytes, count } from "../../../parts/text.ts";
import { useAnswer } from "../../../state/answer.ts";
import { query, setQuery } from "../../../state/place.ts";
import type { TabProps } from "../page.tsx";
import { type LogPlace, LogSource, placeOf } from "./source.ts";
import { LogView } from "./view.tsx";

const FOLLOW_MS = 700;
const ATTEMPTS_MS = 2_000;
const TYPING_MS = 250;
const CHOICE = ["attempt", "role", "replica", "worker", "rank"];

export function Logs({ run }: TabProps) {
  const values = query.value;
  const choice = Object.fromEntries([...values].filter(([name]) => CHOICE.includes(name)));
  const [errors, times] = [values.has("errors"), values.has("times")];
  const text = values.get("text") ?? "";
  const at = values.has("at") ? Number(values.get("at")) : null;
  const [follows, setFollows] = useState(at === null);
  const live = run.state !== "ended";

  const path = { run: run.id };
  const everyMs = live ? ATTEMPTS_MS : 0;
  const { data: attempts } = useAnswer("GET /runs/{run}/attempts", { path, runs: [run.id], everyMs });
  const chosen = attempts?.filter(({ number }) => (choice.attempt ?? String(number)) === String(number));
  const newest = chosen?.findLast((attempt) => logsOf(run, attempt).length > 0)?.number;
  const begun = newest !== undefined;
  const asked = { ...choice, ...(errors && { errors }), ...(times && { times }) };
  const source = useMemo(() => new LogSource(run.id, asked), [JSON.stringify([run.id, asked, newest])]);
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
  /** Another choice of lines or columns: those in view stay. */
  function toggle(name: string): void {
    const place = follows ? null : String(at ?? source.place);
    setQuery({ [name]: values.has(name) ? null : "1", at: place });
  }
  return (
    <section class="page">
      <div class="bar">
        {workerMenu(run, attempts ?? [], worker)}
        <search class="row filters">
          <Input
            type="search"
            name="text"
            label="Search the whole log"
            placeholder="Search the whole log"
            onKeyDown={({ key, shiftKey }) => key === "Enter" && step(!shiftKey)}
          />
          <Button label="↑" title="Match above (Enter)" onClick={() => step(true)} />
          <Button label="↓" title="Match below (Shift Enter)" onClick={() => step(false)} />
          <span class="quiet log-count" role="status">
            {matches && countOf(matches, found, at)}
          </span>
        </search>
        <Button
          label="Errors"
          on={errors}
          title="Only lines that look like errors"
          onClick={() => toggle("errors")}
        />
        <Button label="Times" on={times} title="When each line was written" onClick={() => toggle("times")} />
        <Button label="Follow" on={follows} title="Stay at the end" onClick={follow} />
        {worker && (
          <Link
            label="Download"
            download={`${run.name}.${nameOf(worker)}.log`}
            href={urlOf("GET /runs/{run}/log-text", { path, query: placeOf(worker) })}
          />
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
              <Command of={commandOf(run, worker, times)} />
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

function commandOf(run: Run, { attempt, role, replica, worker, rank }: LogWindow, times: boolean): Words {
  const which = rank === null ? { role, replica, worker } : { rank };
  return ["logs", run.id, { attempt, ...which }, times && "-t", run.state !== "ended" && "--follow"];
}

const SHOWN = 512;

type Log = LogPlace & Pick<LogWindow, "rank" | "node"> & { failed: boolean };

/** The logs of an attempt: of its workers, and of the setup of its nodes. */
function logsOf(run: Run, { number, state, nodes, workers }: Attempt): Log[] {
  const { setup } = run.spec;
  const sets = Array.isArray(setup) && setup.length > 0 && state !== "submitted";
  const log = { attempt: number, worker: 0, rank: null, failed: false };
  return [
    ...workers.map((each) => ({ ...log, ...each, worker: each.index, failed: Boolean(each.exit_code) })),
    ...(sets ? nodes : []).map((node, replica) => ({ ...log, role: "setup", replica, node })),
  ];
}

/** The name of a log: the rank of its worker, or its place among the workers. */
function nameOf({ role, replica, worker, rank }: Omit<Log, "failed" | "node">): string {
  if (rank !== null) return `rank ${rank}`;
  return role === "setup" ? "setup" : `${role}.${replica}.${worker}`;
}

function workerMenu(run: Run, attempts: Attempt[], worker: LogWindow | null) {
  const logs = attempts.toReversed().flatMap((attempt) => logsOf(run, attempt));
  const keyOf = (log: LogPlace) => JSON.stringify(placeOf(log));
  const present = worker && logs.find((log) => keyOf(log) === keyOf(worker));
  if (!present || logs.length < 2) return null;
  const title = (log: Log) => `${attempts.length > 1 ? `Attempt ${log.attempt}, ` : ""}${nameOf(log)}`;
  return (
    <Menu label={title(present)}>
      {logs.slice(0, SHOWN).map((log) => {
        const change = { ...placeOf(log), rank: null, at: null };
        const [tone, node] = log.failed ? ["failed", `${log.node} failed`] : ["quiet", log.node];
        const label = (
          <>
            {title(log)} <span class={tone}>{node}</span>
          </>
        );
        return <Button key={keyOf(log)} class="" label={label} change={change} />;
      })}
      {logs.length > SHOWN && <p class="menu-note">and {logs.length - SHOWN} more: ?rank= chooses one</p>}
    </Menu>
  );
}
