// What if a waiting run asked for fewer slots, or for another pool: what a copy of it would meet, submitted now.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, Refusal } from "../../api/request.ts";
import type { DryRun, QueueEntry, QueuePool, Reason } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { useAnswer } from "../../state/answer.ts";

interface Props {
  entry: QueueEntry;
  queue: QueuePool;
  queues: QueuePool[];
  onClose: () => void;
}

interface Change {
  title: string;
  overrides: Record<string, string | number>;
}

export function WhatIfDialog({ entry, queue, queues, onClose }: Props): JSX.Element {
  const { data: why } = useAnswer("GET /runs/{run}/why", { path: { run: entry.id } });
  const changes: Change[] = [
    ...fewer(entry.slots_needed).map((slots) => ({ title: slotsText(slots), overrides: { slots } })),
    ...queues
      .filter(({ cluster, pool }) => cluster === queue.cluster && pool !== queue.pool)
      .map(({ pool }) => ({ title: `Pool ${pool}`, overrides: { pool } })),
  ];
  return (
    <Dialog title={`What if ${entry.name} asked for something else?`} onClose={onClose}>
      <table class="plain what-if">
        <thead>
          <tr>
            <th scope="col">Change</th>
            <th scope="col">A copy that is submitted now</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">now</th>
            <td>
              {slotsText(entry.slots_needed)}, pool {queue.pool}
              {why && `: ${why.headline}`}
              {why?.estimate && <p class="quiet">{why.estimate.text}</p>}
            </td>
          </tr>
          {changes.map(({ title, overrides }) => (
            <tr key={title}>
              <th scope="row">{title}</th>
              <td>
                <Outlook run={entry.id} overrides={overrides} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {changes.length === 0 && <p class="quiet">It asks for one slot, and its cluster has one pool.</p>}
      <form method="dialog" class="dialog-buttons">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </Dialog>
  );
}

function Outlook({ run, overrides }: { run: string; overrides: Change["overrides"] }): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    const leave = new AbortController();
    const body = { clone: run, overrides };
    ask("POST /runs", { query: { dry_run: true }, body, signal: leave.signal }).then(
      (answer) => setText(outlookOf(answer as unknown as DryRun)), // the answer of a dry run
      (problem) => {
        if (problem instanceof Refusal) setText(problem.message);
        else if (!leave.signal.aborted) throw problem;
      },
    );
    return () => leave.abort();
  }, []);
  const options = Object.entries(overrides).map(([name, value]) => `--${name} ${value}`);
  const starts = text === STARTS;
  return (
    <>
      <p class={starts ? "good" : ""}>{text ?? "…"}</p>
      {starts && <Command text={`tarmac run --clone ${run} ${options.join(" ")}`} />}
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
  const reason = here.find(({ node }) => node === null) ?? mostFrequent(here) ?? reasons[0];
  return `would wait: ${(reason?.node && SHORT[reason.code]) || reason?.text}`;
}

function mostFrequent(reasons: Reason[]): Reason | undefined {
  const counts = new Map<string, number>();
  for (const { code } of reasons) counts.set(code, (counts.get(code) ?? 0) + 1);
  return reasons.toSorted((one, other) => (counts.get(other.code) ?? 0) - (counts.get(one.code) ?? 0))[0];
}

/** Half as many slots, and so on, down to one. */
function fewer(slots: number): number[] {
  const found = [];
  for (let half = Math.floor(slots / 2); half >= 1; half = Math.floor(half / 2)) found.push(half);
  return found.length > 4 ? [...found.slice(0, 3), 1] : found;
}

function slotsText(slots: number): string {
  return slots === 1 ? "1 slot" : `${slots} slots`;
}
