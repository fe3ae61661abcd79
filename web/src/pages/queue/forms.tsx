// What a person may do with a run in a queue: manage it, stop it, or ask what if it asked for something else.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, type Refusal } from "../../api/request.ts";
import type { Cluster, DryRun, Policy, QueueChange, QueueEntry, QueuePool, Reason } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import type { Field, Form, Values } from "../../parts/form.tsx";
import { Rows } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";

/** The last change that was made from this page. */
export const lastChange = signal<{ text: string; command: string } | null>(null);

/** Make changes, all or none, and remember them as `text`. Raises Refusal. */
export async function changeQueue(changes: QueueChange[], text: string): Promise<void> {
  await ask("POST /queue/changes", { query: { limit: 1 }, body: { changes } });
  lastChange.value = { text, command: commandOf(changes) ?? "" };
}

/** The command that makes these changes of one run, if any. */
function commandOf(changes: QueueChange[]): string | null {
  const { run, ...change }: QueueChange = Object.assign({}, ...changes);
  const verb = change.top || change.ahead_of || change.behind_of ? "move" : "set";
  return run ? commandLine("queue", verb, run, change) : null;
}

type Overrides = { slots?: number; pool?: string };

/** What a policy orders by: the name of the amount, its label, and its bounds. */
const AMOUNTS: Partial<Record<Policy, ["priority" | "weight", string, object]>> = {
  priority: ["priority", "Priority, a bigger number is sooner", { step: 1, min: -1_000_000, max: 1_000_000 }],
  fair_share: ["weight", "Weight, its share of the pool", { step: "any", min: 0, max: 100_000 }],
};

/** The pool, and the priority or weight; all changes are made, or none. */
export function manage(
  entry: QueueEntry,
  queue: QueuePool,
  pools: QueuePool[],
  cluster: Cluster | null,
): Form {
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

export function stop({ id, name }: QueueEntry): Form {
  return {
    verb: "Stop",
    title: `Stop ${name}`,
    destroys: true,
    command: () => commandLine("stop", id),
    send: () => ask("POST /runs/{run}/stop", { path: { run: id } }),
  };
}

export function whatIf(entry: QueueEntry, queue: QueuePool, pools: QueuePool[]): Form {
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
        empty=""
      />
    ),
  };
}

function Outlook({ run, overrides }: { run: string; overrides: Overrides }): JSX.Element {
  const [text, setText] = useState("…");
  useEffect(() => {
    ask("POST /runs", { query: { dry_run: true }, body: { clone: run, overrides } }).then(
      (answer) => setText(outlookOf(answer as unknown as DryRun)), // the answer of a dry run
      (problem: Refusal) => setText(problem.message),
    );
  }, []);
  if (text !== STARTS) return <>{text}</>;
  return (
    <>
      <p class="good">{text}</p>
      <Command text={commandLine("run", { clone: run, ...overrides })} />
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

function outlookOf({ placement, reasons, largest }: DryRun): string {
  if (placement === null) return `could never start${largest === null ? "" : `: at most ${largest}`}`;
  if (reasons.length === 0) return STARTS;
  const here = reasons.filter(({ code }) => !ELSEWHERE.includes(code));
  const often = (reason: Reason) => here.filter(({ code }) => code === reason.code).length;
  const [most] = here.toSorted((one, other) => often(other) - often(one));
  const reason = here.find(({ node }) => node === null) ?? most ?? reasons[0];
  return `would wait: ${(reason?.node && SHORT[reason.code]) || reason?.text}`;
}

function slotsText(slots: number): string {
  return slots === 1 ? "1 slot" : `${slots} slots`;
}
