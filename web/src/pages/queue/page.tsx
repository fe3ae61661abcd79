// The queue of each pool, `/queue`, in scheduling order: who is ahead, when each may start, and changes of the order.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type * as api from "../../api/types.ts";
import type { QueueChange, QueueEntry, QueuePool } from "../../api/types.ts";
import { Button, Menu } from "../../parts/controls.tsx";
import { type Field, type Form, FormButton, type Values } from "../../parts/form.tsx";
import { Page, PoolTabs, poolName, Rows } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import type { Words } from "../../parts/shell.ts";
import { Age, Command, Problem, Status } from "../../parts/shown.tsx";
import { type Column, column, GROWS, RIGHT, Table } from "../../parts/table.tsx";
import { count, time, until } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { query } from "../../state/place.ts";
import { may, now } from "../../state/session.ts";
import { WindowRows } from "../../state/window.ts";
import { Acts } from "../runs/actions.tsx";
import { RunLink } from "../runs/columns.tsx";

const ASK_MS = 5_000;
const POLICIES = {
  priority: "by priority",
  fair_share: "by fair share",
  least_attained: "what has run least first",
};

export function QueuePage() {
  const mine = query.value.get("scope") === "mine";
  const asked = { query: { limit: 1, mine }, everyMs: ASK_MS, runs: "all" } as const;
  const { data: queues, problem } = useAnswer("GET /queue", asked);
  if (!queues) return <Problem problem={problem} />;
  const chosen = queues.find((queue) => poolName(queue) === query.value.get("pool")) ?? queues[0];
  const key = chosen ? poolName(chosen) : null;
  const bar = (
    <>
      <Button label="Mine" on={mine} change={{ scope: mine ? null : "mine" }} />
      {chosen && (
        <span class="quiet">
          {POLICIES[chosen.policy]}, {chosen.preemption ? "with" : "without"} preemption
        </span>
      )}
      {lastChange.value && (
        <span class="bar-end wrap last-change" role="status">
          {lastChange.value.text} <Command of={lastChange.value.command} />
        </span>
      )}
    </>
  );
  return (
    <Page title="Queue" sum={chosen && count(chosen.total)} bar={bar}>
      <PoolTabs pools={queues} chosen={key} />
      {chosen && (
        <QueueTable
          key={`${key} ${mine}`}
          queue={chosen}
          pools={queues.filter(({ cluster }) => cluster === chosen.cluster)}
          mine={mine}
        />
      )}
    </Page>
  );
}

/** `pools`: those of its cluster. */
function QueueTable({ queue, pools, mine }: { queue: QueuePool; pools: QueuePool[]; mine: boolean }) {
  const { cluster, pool } = queue;
  const without = queue.policy === "fair_share" ? "priority" : "weight";
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
    return new WindowRows<QueueEntry>(read);
  }, [cluster, pool, mine]);
  useEffect(() => rows.refresh(), [queue]); // with each answer about the queues
  useEffect(() => () => rows.close(), [rows]);

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

  function menu(entry: QueueEntry) {
    const top = () => void change({ run: entry.id, top: true }, `Moved ${entry.name} to the top.`);
    return (
      <Menu label={<b>⋮</b>} name={`Actions of ${entry.name}`} class="quiet">
        <a href={`/run/${entry.id}`}>{entry.estimate === null ? "Open" : "Why it waits"}</a>
        {may("control") && (
          <>
            <FormButton class="" form={manage(entry, queue, pools, capacity)} />
            <Button class="" label="Move to top" onClick={top} />
            <Acts class="" runs={[{ ...entry, outcome: null }]} status={entry.state} />
          </>
        )}
        {may("submit") && entry.state === "queued" && (
          <FormButton class="" form={whatIf(entry, queue, pools)} />
        )}
      </Menu>
    );
  }

  return (
    <Table
      label={`Queue of pool ${pool}`}
      columns={[...COLUMNS.filter(({ id }) => id !== without), column("actions", "", 40, 1, menu)]}
      rows={rows}
      href={({ id }) => `/run/${id}`}
      {...(may("control") ? { onMove: move } : {})}
      empty={rows.known ? "Nothing runs or waits here." : "Loading…"}
    />
  );
}

/** Cells that show ages are components, which change without their table. */
const COLUMNS: Column<QueueEntry>[] = [
  column("number", "Ahead", 80, 4, ({ number }) => count(number - 1), RIGHT),
  column("mode", "Type", 96, 8, ({ mode }) => mode),
  column("name", "Name", 130, 0, RunLink, GROWS),
  column("priority", "Priority", 72, 7, ({ priority }) => priority, RIGHT),
  column("weight", "Weight", 72, 7, ({ weight }) => Number(weight.toPrecision(4)), RIGHT),
  column("submitted", "Submitted", 88, 6, (entry) => <Age at={entry.submitted_at} />, RIGHT),
  column("slots", "Slots", 76, 5, (entry) => `${entry.slots_acquired}/${entry.slots_needed}`, RIGHT),
  column("state", "State", 110, 2, (entry) => <State {...entry} />),
  column("start", "Est. start", 96, 3, (entry) => <Start {...entry} />, GROWS),
  column("user", "User", 96, 9, ({ user }) => user),
];

function State({ awaits, retry_at, state }: QueueEntry) {
  const names = awaits.map(({ name }) => name);
  const more = names.length > 1 ? ` +${names.length - 1}` : "";
  if (names.length > 0) return <span title={names.join(", ")}>{`after ${names[0]}${more}`}</span>;
  if (retry_at !== null && retry_at > now.value) return <>retry {until(retry_at, now.value)}</>;
  return <Status value={state} />;
}

function Start({ estimate, native }: QueueEntry) {
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

/** The last change that was made from this page. */
const lastChange = signal<{ text: string; command: Words } | null>(null);

/** Make changes, all or none, and remember them as `text`. Raises Refusal. */
async function changeQueue(changes: QueueChange[], text: string): Promise<void> {
  await ask("POST /queue/changes", { query: { limit: 1 }, body: { changes } });
  lastChange.value = { text, command: commandOf(changes) ?? [] };
}

/** The command that makes these changes of one run, if any. */
function commandOf(changes: QueueChange[]): Words | null {
  const { run, ...change }: QueueChange = Object.assign({}, ...changes);
  const verb = change.top || change.ahead_of || change.behind_of ? "move" : "set";
  return run ? ["queue", verb, run, change] : null;
}

type Overrides = { slots?: number; pool?: string };

/** What a policy orders by: the name of the amount, its label, and its bounds. */
const AMOUNTS: Partial<Record<api.Policy, ["priority" | "weight", string, object]>> = {
  priority: ["priority", "Priority, a bigger number is sooner", { step: 1, min: -1_000_000, max: 1_000_000 }],
  fair_share: ["weight", "Weight, its share of the pool", { step: "any", min: 0, max: 100_000 }],
};

/** The pool, and the priority or weight; all changes are made, or none. */
function manage(entry: QueueEntry, queue: QueuePool, pools: QueuePool[], cluster: api.Cluster | null): Form {
  const { id: run, name, slots_acquired } = entry;
  const amountOf = (pool?: string) => AMOUNTS[(pools.find((each) => each.pool === pool) ?? queue).policy];
  function textOf({ pool, total }: QueuePool): string {
    const known = cluster?.pools.find((each) => each.name === pool);
    const free = known ? ` — ${known.slots - known.slots_used} of ${known.slots} slots free` : "";
    return `${pool}${free}, ${total} in its queue`;
  }
  function changesOf(values: Values): QueueChange[] {
    const { pool = "" } = values;
    const [what] = amountOf(pool) ?? [];
    const amount = Number(what && values[what]);
    return [
      ...(pool === queue.pool ? [] : [{ run, pool }]),
      ...(what && amount !== entry[what] ? [{ run, [what]: amount }] : []),
    ];
  }
  return {
    label: "Manage job",
    verb: "OK",
    title: `Manage job ${name}`,
    text: slots_acquired > 0 && "In another pool the run starts again: it leaves the slots that it holds.",
    fields: ({ pool }) => {
      const [what, label, bounds] = amountOf(pool) ?? [];
      const amount: Field[] = what
        ? [[what, label ?? "", String(entry[what]), { type: "number", ...bounds }]]
        : [];
      return [["pool", "Pool", queue.pool, pools.map((each) => [each.pool, textOf(each)])], ...amount];
    },
    command: (values) => commandOf(changesOf(values)),
    send: async (values) => {
      const changes = changesOf(values);
      return changes.length > 0 && changeQueue(changes, `Changed ${name}.`);
    },
  };
}

function whatIf(entry: QueueEntry, queue: QueuePool, pools: QueuePool[]): Form {
  const others = pools.filter(({ pool }) => pool !== queue.pool).map(({ pool }) => ({ pool }));
  const fewer = [2, 4, 8].map((by) => ({ slots: Math.floor(entry.slots_needed / by) }));
  const changes: Overrides[] = [{}, ...fewer.filter(({ slots }) => slots > 0), ...others];
  const now = `now: ${slotsText(entry.slots_needed)}, pool ${queue.pool}`;
  return {
    label: "What if",
    title: `What if ${entry.name} asked for something else?`,
    text: (
      <Rows
        label="Changes"
        rows={changes}
        columns={[
          ["Change", ({ slots, pool }) => (slots ? slotsText(slots) : pool ? `Pool ${pool}` : now)],
          ["A copy that is submitted now", (values) => <Outlook run={entry.id} overrides={values} />],
        ]}
      />
    ),
  };
}

function Outlook({ run, overrides }: { run: string; overrides: Overrides }) {
  const asked = { query: { dry_run: true }, body: { clone: run, overrides } };
  const { data, problem } = useAnswer("POST /runs", asked);
  const text = problem?.message ?? (data ? outlookOf(data as unknown as api.DryRun) : "…");
  if (text !== STARTS) return <>{text}</>;
  return (
    <>
      <p class="good">{text}</p>
      <Command of={["run", { clone: run, ...overrides }]} />
    </>
  );
}

const STARTS = "would start at once";
const SHORT: Record<string, string> = {
  busy: "other runs hold the slots",
  behind: "the free slots are reserved for earlier runs",
  gang: "only a part of it fits now",
};
const ELSEWHERE = ["other_pool", "other_shard", "other_hostname", "no_such_cluster"];

function outlookOf({ placement, reasons, largest }: api.DryRun): string {
  if (placement === null) return `could never start${largest === null ? "" : `: at most ${largest}`}`;
  if (reasons.length === 0) return STARTS;
  const here = reasons.filter(({ code }) => !ELSEWHERE.includes(code));
  const often = (reason: api.Reason) => here.filter(({ code }) => code === reason.code).length;
  const [most] = here.toSorted((one, other) => often(other) - often(one));
  const reason = here.find(({ node }) => node === null) ?? most ?? reasons[0];
  return `would wait: ${(reason?.node && SHORT[reason.code]) || reason?.text}`;
}

function slotsText(slots: number): string {
  return slots === 1 ? "1 slot" : `${slots} slots`;
}
