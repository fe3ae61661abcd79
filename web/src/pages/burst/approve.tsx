// The approval of burst runs: what each would rent, and what it may cost, are shown before.

import { ask } from "../../api/request.ts";
import type { Shape } from "../../api/types.ts";
import { type Form, FormButton } from "../../parts/form.tsx";
import { Rows } from "../../parts/list.tsx";
import { Problem } from "../../parts/shown.tsx";
import { count } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";

interface Named {
  id: string;
  name: string;
}

/** An amount of money: 98.32 USD. */
export const money = (amount: number, shape: Pick<Shape, "currency"> | null) =>
  shape ? `${amount.toFixed(2)} ${shape.currency}` : "";

/** The slots of a machine: 8 h100. */
export const slotsOf = ({ slots, slot_type }: Pick<Shape, "slots" | "slot_type">) => `${slots} ${slot_type}`;

/** The form that approves runs. */
export function approval(runs: Named[]): Form {
  const number = runs.length === 1 ? "" : ` ${count(runs.length)} runs`;
  const ids = runs.map(({ id }) => id);
  return {
    verb: `Approve${number}`,
    title: `Rent machines for ${runs.length === 1 ? runs[0]?.name : number.trim()}`,
    text: runs.map((run) => <Offers key={run.id} run={run} />),
    command: () => ["burst", "approve", ...ids],
    send: async () => {
      for (const run of ids) await ask("POST /runs/{run}/approve", { path: { run } });
    },
  };
}

/** What would be tried for a run, in this order. */
function Offers({ run }: { run: Named }) {
  const { data, problem } = useAnswer("GET /runs/{run}/offers", { path: { run: run.id } });
  if (!data) return <Problem problem={problem} />;
  return (
    <Rows
      label={`Shapes for ${run.name}`}
      rows={data}
      columns={[
        [run.name, ({ machines, shape: { id } }) => (machines ? `${machines} × ${id}` : id)],
        ["Each", ({ shape }) => slotsOf(shape), "wide"],
        ["Per hour", ({ machines, rate, shape }) => machines > 0 && money(rate, shape), "right"],
        ["At most", ({ cost, shape }) => (cost === null ? "no time limit" : money(cost, shape)), "right"],
        ["", ({ refused }) => refused && <span class="failed">{refused}</span>],
      ]}
      empty={`No shape is known for ${run.name}.`}
    />
  );
}

/** The button on the page of a burst run, while it waits for its approval. */
export function Approve({ run }: { run: Named }) {
  const { data } = useAnswer("GET /burst/staged", { runs: [run.id] });
  return data?.some(({ id }) => id === run.id) ? <FormButton form={approval([run])} /> : null;
}
