// Manage Job: the pool, and the priority or weight of a run in a queue; OK makes all changes, or none.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { QueueChange, QueueEntry, QueuePool } from "../../api/types.ts";
import { FormDialog } from "../../parts/action.tsx";
import { useAnswer } from "../../state/answer.ts";
import { changeQueue, commandOf } from "./changes.ts";

interface Props {
  entry: QueueEntry;
  /** The queue that the run is in, and those it may move to. */
  queue: QueuePool;
  queues: QueuePool[];
  onClose: () => void;
}

export function ManageDialog({ entry, queue, queues, onClose }: Props): JSX.Element {
  const [pool, setPool] = useState(queue.pool);
  const [amount, setAmount] = useState<number | null>(null);
  const { data: cluster } = useAnswer("GET /clusters/{cluster}", { path: { cluster: queue.cluster } });
  const pools = queues.filter((each) => each.cluster === queue.cluster);
  const policy = pools.find((each) => each.pool === pool)?.policy ?? queue.policy;
  const what = policy === "priority" ? "priority" : policy === "fair_share" ? "weight" : null;
  const before = what === null ? null : entry[what];
  const changes: QueueChange[] = [
    ...(pool === queue.pool ? [] : [{ run: entry.id, pool }]),
    ...(what === null || amount === null || amount === before ? [] : [{ run: entry.id, [what]: amount }]),
  ];
  return (
    <FormDialog
      title={`Manage job ${entry.name}`}
      verb="OK"
      command={changes.length > 0 ? commandOf(changes) : null}
      send={async () => changes.length > 0 && changeQueue(changes, `Changed ${entry.name}.`)}
      onClose={onClose}
    >
      <div class="form-grid">
        <label for="manage-pool">Pool</label>
        <select id="manage-pool" value={pool} onChange={({ currentTarget }) => setPool(currentTarget.value)}>
          {pools.map(({ pool: name, total }) => {
            const known = cluster?.pools.find((each) => each.name === name);
            return (
              <option key={name} value={name}>
                {name}
                {known && ` — ${known.slots - known.slots_used} of ${known.slots} slots free`}, {total} in its
                queue
              </option>
            );
          })}
        </select>
        {what !== null && (
          <>
            <label for="manage-amount">{what === "priority" ? "Priority" : "Weight"}</label>
            <input
              id="manage-amount"
              type="number"
              step={what === "priority" ? 1 : "any"}
              min={what === "priority" ? -1_000_000 : 0}
              max={what === "priority" ? 1_000_000 : 100_000}
              required
              value={amount ?? before ?? ""}
              onInput={({ currentTarget }) =>
                setAmount(currentTarget.value === "" ? null : currentTarget.valueAsNumber)
              }
            />
            <p class="quiet">
              {what === "priority" ? "A bigger number is sooner." : "Its share of the pool."}
            </p>
          </>
        )}
      </div>
      {pool !== queue.pool && entry.slots_acquired > 0 && (
        <p>The run holds slots: it leaves them, and starts again in the other pool.</p>
      )}
    </FormDialog>
  );
}
