// The columns of a queue: those of `tarmac queue`, with the number of jobs ahead.

import type { ComponentChildren, JSX } from "preact";
import type { Policy, QueueEntry } from "../../api/types.ts";
import { age, count, time, until } from "../../parts/amounts.ts";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { now } from "../../state/clock.ts";

export function columnsOf(
  policy: Policy,
  menu: (entry: QueueEntry) => ComponentChildren,
): Column<QueueEntry>[] {
  const shared = policy === "fair_share";
  return [
    { id: "ahead", title: "Ahead", width: 80, rank: 4, right: true, cell: ({ number }) => count(number - 1) },
    { id: "type", title: "Type", width: 96, rank: 8, cell: ({ mode }) => mode },
    {
      id: "name",
      title: "Name",
      width: 130,
      grows: true,
      rank: 0,
      cell: ({ id, name, array_index }) => (
        <a href={`/run/${id}`} title={name} tabIndex={-1} draggable={false}>
          {name}
          {array_index !== null && <span class="quiet">[{array_index}]</span>}
        </a>
      ),
    },
    shared
      ? {
          id: "weight",
          title: "Weight",
          width: 72,
          rank: 7,
          right: true,
          cell: ({ weight }) => Number(weight.toPrecision(4)),
        }
      : {
          id: "priority",
          title: "Priority",
          width: 72,
          rank: 7,
          right: true,
          cell: ({ priority }) => priority,
        },
    {
      id: "submitted",
      title: "Submitted",
      width: 88,
      rank: 6,
      right: true,
      cell: ({ submitted_at }) => <Submitted at={submitted_at} />,
    },
    {
      id: "slots",
      title: "Slots",
      width: 76,
      rank: 5,
      right: true,
      cell: ({ slots_acquired, slots_needed }) => `${slots_acquired}/${slots_needed}`,
    },
    { id: "state", title: "State", width: 110, rank: 2, cell: (entry) => <StateCell entry={entry} /> },
    {
      id: "start",
      title: "Est. start",
      width: 96,
      grows: true,
      rank: 3,
      cell: (entry) => <Start entry={entry} />,
    },
    { id: "user", title: "User", width: 96, rank: 9, cell: ({ user }) => user },
    { id: "actions", title: "", width: 40, rank: 1, cell: menu },
  ];
}

function Submitted({ at }: { at: number }): JSX.Element {
  return <time title={time(at)}>{age(at, now.value)}</time>;
}

function StateCell({ entry }: { entry: QueueEntry }): JSX.Element {
  const { awaits, retry_at, state } = entry;
  if (awaits.length > 0) {
    return (
      <span title={awaits.map(({ name }) => name).join(", ")}>
        after {awaits[0]?.name}
        {awaits.length > 1 && ` +${awaits.length - 1}`}
      </span>
    );
  }
  if (retry_at !== null && retry_at > now.value) return <>retry {until(retry_at, now.value)}</>;
  return <Status value={state} />;
}

function Start({ entry: { estimate, native } }: { entry: QueueEntry }): JSX.Element | null {
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
