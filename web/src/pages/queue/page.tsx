// The queue of each pool, `/queue`, in scheduling order: who is ahead, when each may start, and changes of the order.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { Policy, QueueChange, QueueEntry, QueuePool } from "../../api/types.ts";
import { age, count, time, until } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { type Form, FormButton, useForm } from "../../parts/form.tsx";
import { Menu } from "../../parts/menu.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { PoolTabs, poolName } from "../../parts/pools.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Toggle } from "../../parts/toggle.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { go, query } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { WindowRows } from "../../state/window.ts";
import { changeQueue, lastChange, manage, stop, whatIf } from "./forms.tsx";

const ASK_MS = 5_000;
const POLICIES = {
  priority: "by priority",
  fair_share: "by fair share",
  least_attained: "what has run least first",
};

export function QueuePage(): JSX.Element {
  const mine = query.value.get("scope") === "mine";
  const asked = { query: { limit: 1, mine }, everyMs: ASK_MS, runs: "all" } as const;
  const { data: queues, problem } = useAnswer("GET /queue", asked);
  if (!queues) return <Problem problem={problem} />;
  const chosen = queues.find((queue) => poolName(queue) === query.value.get("pool")) ?? queues[0];
  const key = chosen ? poolName(chosen) : null;
  return (
    <section class="page">
      <div class="bar">
        <h1>
          Queue <span class="quiet">{chosen && count(chosen.total)}</span>
        </h1>
        <Toggle label="Mine" on={mine} change={{ scope: mine ? null : "mine" }} />
        {chosen && (
          <span class="quiet">
            {POLICIES[chosen.policy]}, {chosen.preemption ? "with" : "without"} preemption
          </span>
        )}
        {lastChange.value && (
          <span class="bar-end wrap last-change" role="status">
            {lastChange.value.text} <Command text={lastChange.value.command} />
          </span>
        )}
      </div>
      <PoolTabs pools={queues} chosen={key} />
      {chosen && (
        <QueueTable
          key={`${key} ${mine}`}
          queue={chosen}
          pools={queues.filter(({ cluster }) => cluster === chosen.cluster)}
          mine={mine}
        />
      )}
    </section>
  );
}

interface TableProps {
  queue: QueuePool;
  /** The pools of its cluster. */
  pools: QueuePool[];
  mine: boolean;
}

function QueueTable({ queue, pools, mine }: TableProps): JSX.Element {
  const { cluster, pool, policy } = queue;
  const { data: capacity } = useAnswer("GET /clusters/{cluster}", { path: { cluster }, everyMs: ASK_MS });
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
  useEffect(() => rows.refresh(), [queue]); // with each answer about the queues
  useEffect(() => () => rows.close(), [rows]);
  const { show, dialog } = useForm(() => void rows.renew());

  /** Make a change; whether it was made. */
  async function change(change: QueueChange, text: string): Promise<boolean> {
    const problem = await changeQueue([change], text).catch((problem) => problem);
    if (problem) notifyFailure(problem);
    else await rows.renew();
    return !problem;
  }

  async function move(from: number, to: number): Promise<boolean> {
    const [run, anchor] = [rows.at(from), rows.at(to)];
    if (!run || !anchor) return false;
    const place = to < from ? { ahead_of: anchor.id } : { behind_of: anchor.id };
    const where = to < from ? "ahead of" : "behind";
    return change({ run: run.id, ...place }, `Moved ${run.name} ${where} ${anchor.name}.`);
  }

  function menu(entry: QueueEntry): JSX.Element {
    const button = (form: Form) => <FormButton form={form} show={show} class="" />;
    const top = () => void change({ run: entry.id, top: true }, `Moved ${entry.name} to the top.`);
    return (
      <Menu label="⋮" name={`Actions of ${entry.name}`} class="quiet dots">
        <a href={`/run/${entry.id}`}>{entry.estimate === null ? "Open" : "Why it waits"}</a>
        {may("control") && (
          <>
            {button(manage(entry, queue, pools, capacity))}
            <button type="button" onClick={top}>
              Move to top
            </button>
            {button(stop(entry))}
          </>
        )}
        {may("submit") && entry.state === "queued" && button(whatIf(entry, queue, pools))}
      </Menu>
    );
  }

  return (
    <>
      <Table
        label={`Queue of pool ${pool}`}
        columns={[...columnsOf(policy), { id: "actions", title: "", width: 40, rank: 1, cell: menu }]}
        rows={rows}
        keyOf={({ id }) => id}
        href={({ id }) => `/run/${id}`}
        open={go}
        {...(may("control") ? { onMove: move } : {})}
        empty={rows.known ? "Nothing runs or waits here." : "Loading…"}
      />
      {dialog}
    </>
  );
}

type Definition = [
  title: string,
  width: number,
  rank: number,
  Cell: (entry: QueueEntry) => ComponentChildren,
  more?: Partial<Column<QueueEntry>>,
];

const RIGHT = { right: true };
const GROWS = { grows: true };
const DEFINITIONS: Definition[] = [
  ["Ahead", 80, 4, ({ number }) => count(number - 1), RIGHT],
  ["Type", 96, 8, ({ mode }) => mode],
  ["Name", 130, 0, Name, GROWS],
  ["Priority", 72, 7, ({ priority }) => priority, RIGHT],
  ["Weight", 72, 7, ({ weight }) => Number(weight.toPrecision(4)), RIGHT],
  ["Submitted", 88, 6, Submitted, RIGHT],
  ["Slots", 76, 5, ({ slots_acquired, slots_needed }) => `${slots_acquired}/${slots_needed}`, RIGHT],
  ["State", 110, 2, State],
  ["Est. start", 96, 3, Start, GROWS],
  ["User", 96, 9, ({ user }) => user],
];

/** Cells are components: those that show ages change without their table. */
const COLUMNS = DEFINITIONS.map(([title, width, rank, Cell, more]): Column<QueueEntry> => {
  return { id: title, title, width, rank, cell: (entry) => <Cell {...entry} />, ...more };
});

function columnsOf(policy: Policy): Column<QueueEntry>[] {
  const without = policy === "fair_share" ? "Priority" : "Weight";
  return COLUMNS.filter(({ title }) => title !== without);
}

function Name({ id, name, array_index }: QueueEntry): JSX.Element {
  return (
    <a href={`/run/${id}`} title={name} tabIndex={-1} draggable={false}>
      {name}
      {array_index !== null && <span class="quiet">[{array_index}]</span>}
    </a>
  );
}

function Submitted({ submitted_at }: QueueEntry): JSX.Element {
  return <time title={time(submitted_at)}>{age(submitted_at, now.value)}</time>;
}

function State({ awaits, retry_at, state }: QueueEntry): JSX.Element {
  const [first, ...others] = awaits.map(({ name }) => name);
  if (first)
    return (
      <span
        title={[first, ...others].join(", ")}
      >{`after ${first}${others.length > 0 ? ` +${others.length}` : ""}`}</span>
    );
  if (retry_at !== null && retry_at > now.value) return <>retry {until(retry_at, now.value)}</>;
  return <Status value={state} />;
}

function Start({ estimate, native }: QueueEntry): JSX.Element | null {
  if (estimate === null) return null;
  if (native?.stuck) return <span class="failed">never: {native.reason}</span>;
  const { start_at, latest_at, basis } = estimate;
  if (start_at === null) return <span class="quiet">unknown</span>;
  const latest = latest_at === null ? "" : `, at the latest ${time(latest_at)}`;
  const place = native?.place == null ? "" : ` (place ${native.place} of ${native.waiting})`;
  return (
    <span title={`${time(start_at)}${latest}; from: ${basis}`}>
      {until(start_at, now.value)}
      {place}
    </span>
  );
}
