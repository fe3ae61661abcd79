// The queue of each pool, `/queue`, in scheduling order: who is ahead, when each may start, and changes of the order.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { onChanges } from "../../api/live.ts";
import { ask, Refusal } from "../../api/request.ts";
import type { QueueChange, QueueEntry, QueuePool } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Menu } from "../../parts/menu.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Table } from "../../parts/table.tsx";
import { useAnswer } from "../../state/answer.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { WindowRows } from "../../state/window.ts";
import { ActDialog } from "../runs/actions.tsx";
import { changeQueue, lastChange } from "./changes.ts";
import { columnsOf } from "./columns.tsx";
import { ManageDialog } from "./manage.tsx";
import { WhatIfDialog } from "./whatif.tsx";

const ASK_MS = 5_000;
const POLICIES = {
  priority: "by priority",
  fair_share: "by fair share",
  least_attained: "what has run least first",
};

export function QueuePage(): JSX.Element {
  useEffect(() => {
    document.title = "Queue · tarmac";
  }, []);
  const mine = query.value.get("scope") === "mine";
  const { data: queues, problem } = useAnswer("GET /queue", {
    query: { limit: 1, mine },
    everyMs: ASK_MS,
    runs: "all",
  });
  if (problem && !queues) return <Problem problem={problem} />;
  if (!queues) return <p class="loading">Loading…</p>;
  const chosen = queues.find((queue) => nameOf(queue) === query.value.get("pool")) ?? queues[0];
  const alone = new Set(queues.map(({ cluster }) => cluster)).size === 1;
  return (
    <section class="page">
      <div class="bar">
        <h1>
          Queue <span class="quiet">{chosen ? count(chosen.total) : ""}</span>
        </h1>
        <button
          type="button"
          class="button toggle"
          aria-pressed={mine}
          onClick={() => setQuery({ scope: mine ? null : "mine" })}
        >
          Mine
        </button>
        {chosen && (
          <span class="quiet">
            {POLICIES[chosen.policy]}, {chosen.preemption ? "with" : "without"} preemption
          </span>
        )}
        {lastChange.value && (
          <span class="bar-end last-change" role="status">
            {lastChange.value.text} <Command text={lastChange.value.command} />
          </span>
        )}
      </div>
      <nav class="tabs" aria-label="Pools">
        {queues.map((queue) => (
          <a
            key={nameOf(queue)}
            href={`/queue?${new URLSearchParams({ pool: nameOf(queue), ...(mine ? { scope: "mine" } : {}) })}`}
            aria-current={queue === chosen ? "page" : undefined}
          >
            {alone ? queue.pool : nameOf(queue)} <span class="quiet">{count(queue.total)}</span>
          </a>
        ))}
      </nav>
      {chosen && <QueueTable key={`${nameOf(chosen)} ${mine}`} queue={chosen} queues={queues} mine={mine} />}
    </section>
  );
}

function nameOf({ cluster, pool }: QueuePool): string {
  return `${cluster}/${pool}`;
}

interface TableProps {
  queue: QueuePool;
  queues: QueuePool[];
  mine: boolean;
}

type Opened = { entry: QueueEntry; kind: "manage" | "what-if" | "stop" };

function QueueTable({ queue, queues, mine }: TableProps): JSX.Element {
  const { cluster, pool, policy } = queue;
  const [opened, setOpened] = useState<Opened | null>(null);
  const rows = useMemo(() => {
    async function read(offset: number, limit: number, signal: AbortSignal) {
      const part = mine ? { mine, limit: offset + limit } : { after: offset, limit };
      const [found] = await ask("GET /queue", { query: { cluster, pool, ...part }, signal });
      const { total = 0, runs = [] } = found ?? {};
      if (mine) return { total, rows: runs.slice(offset) };
      // Runs that the user may not see leave their places empty.
      const rows = new Array<QueueEntry>(Math.max(0, Math.min(limit, total - offset)));
      for (const run of runs) rows[run.number - 1 - offset] = run;
      return { total, rows };
    }
    return new WindowRows<QueueEntry>(read, notifyFailure);
  }, [cluster, pool, mine]);
  useEffect(() => {
    const stop = onChanges(() => rows.refresh());
    const every = setInterval(() => document.hidden || rows.refresh(), ASK_MS);
    return () => {
      stop();
      clearInterval(every);
      rows.close();
    };
  }, [rows]);

  async function change(changes: QueueChange[], text: string): Promise<boolean> {
    try {
      await changeQueue(changes, text);
      await rows.renew();
      return true;
    } catch (problem) {
      if (!(problem instanceof Refusal)) throw problem;
      notifyFailure(problem);
      return false;
    }
  }

  async function move(from: number, to: number): Promise<boolean> {
    const [run, anchor] = [rows.at(from), rows.at(to)];
    if (!run || !anchor) return false;
    const place = to < from ? { ahead_of: anchor.id } : { behind_of: anchor.id };
    const where = to < from ? "ahead of" : "behind";
    return change([{ run: run.id, ...place }], `Moved ${run.name} ${where} ${anchor.name}.`);
  }

  function menu(entry: QueueEntry): JSX.Element {
    const open = (kind: Opened["kind"]) => () => setOpened({ entry, kind });
    return (
      <Menu label="⋮" name={`Actions of ${entry.name}`} class="quiet dots">
        <a href={`/run/${entry.id}`}>{entry.estimate === null ? "Open" : "Why it waits"}</a>
        {may("control") && (
          <>
            <button type="button" onClick={open("manage")}>
              Manage job…
            </button>
            <button
              type="button"
              onClick={() => void change([{ run: entry.id, top: true }], `Moved ${entry.name} to the top.`)}
            >
              Move to top
            </button>
            <button type="button" onClick={open("stop")}>
              Stop…
            </button>
          </>
        )}
        {may("submit") && entry.state === "queued" && (
          <button type="button" onClick={open("what-if")}>
            What if…
          </button>
        )}
      </Menu>
    );
  }

  function close(): void {
    setOpened(null);
    void rows.renew();
  }
  const columns = useMemo(() => columnsOf(policy, menu), [policy, rows]);
  const { entry, kind } = opened ?? {};
  return (
    <>
      <Table
        label={`Queue of pool ${pool}`}
        columns={columns}
        rows={rows}
        keyOf={({ id }) => id}
        href={({ id }) => `/run/${id}`}
        open={go}
        {...(may("control") ? { onMove: move } : {})}
        empty={rows.known ? "Nothing runs or waits here." : "Loading…"}
      />
      {entry && kind === "manage" && (
        <ManageDialog entry={entry} queue={queue} queues={queues} onClose={close} />
      )}
      {entry && kind === "what-if" && (
        <WhatIfDialog entry={entry} queue={queue} queues={queues} onClose={close} />
      )}
      {entry && kind === "stop" && (
        <ActDialog name="stop" runs={[{ ...entry, outcome: null }]} onClose={close} />
      )}
    </>
  );
}
