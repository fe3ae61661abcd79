// Rented machines, `/shapes`: runs that wait for an approval, rentals, and shapes with their rates and stock; and what
// each cluster has to request, by kind of node.

import { ask } from "../../api/request.ts";
import type { ListedShape, Rental } from "../../api/types.ts";
import { Input } from "../../parts/controls.tsx";
import { type Form, FormButton } from "../../parts/form.tsx";
import { List, Rows, Sheet } from "../../parts/list.tsx";
import { Age } from "../../parts/shown.tsx";
import { bytes, count } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { query } from "../../state/place.ts";
import { mayControl, now } from "../../state/session.ts";
import { approval, money, slotsOf } from "./approve.tsx";

const ASK_MS = 5_000;
const HOUR_S = 3_600;

export function ShapesPage() {
  const text = (query.value.get("text") ?? "").toLowerCase();
  const since = Math.floor(now.peek() / HOUR_S - 24) * HOUR_S;
  const label = "Shape, provider, region or type of slots";
  return (
    <Sheet title="Shapes" bar={<Input type="search" name="text" label={label} placeholder="Shape or type" />}>
      <Staged />
      <List
        title="Rentals"
        operation="GET /burst/rentals"
        query={{ since }}
        everyMs={ASK_MS}
        columns={[
          ["Run", ({ run_id, run_name }) => <a href={`/run/${run_id}`}>{run_name}</a>],
          ["User", ({ user }) => user, "wide"],
          ["State", ({ state }) => state],
          ["Machines", ({ machines, shape }) => shape && `${machines} × ${shape.id}`],
          ["Cost", ({ spent, shape }) => money(spent, shape), "right"],
          ["Since", ({ created_at, requested_at }) => <Age at={created_at ?? requested_at} />, "wide"],
          ["Ended", endOf],
        ]}
        command={["burst", "ls"]}
        empty="Nothing is rented, and nothing was in the last day."
      />
      <List
        title="Shapes"
        operation="GET /shapes"
        everyMs={ASK_MS}
        rows={(shapes) => shapes.filter((shape) => wordsOf(shape).includes(text))}
        columns={[
          ["Id", ({ id }) => <code>{id}</code>],
          ["Provider", ({ provider }) => provider, "wide"],
          ["Region", ({ region }) => region, "wide"],
          ["Processor", ({ processor }) => processor, "wide"],
          ["Slots", slotsOf],
          ["Kind", ({ spot }) => (spot ? "spot" : "on demand"), "wide"],
          ["Per hour", (shape) => money(shape.rate, shape), "right"],
          ["Credits", ({ credits, rate }) => (credits ?? rate).toFixed(2), "right"],
          ["Rated on", ({ rated_on }) => rated_on, "wide"],
          ["Stock found", stockOf],
        ]}
        command={["shapes", "ls"]}
        empty="No shape is known: no machines can be rented."
        action="manage"
        forms={[REFRESH]}
      />
      <List
        title="Machines of the clusters"
        operation="GET /clusters"
        rows={(clusters) =>
          clusters.flatMap(({ name, node_kinds }) => node_kinds.map((kind) => ({ ...kind, name })))
        }
        columns={[
          ["Cluster", ({ name }) => name],
          ["Pool", ({ pool }) => pool],
          ["Slot type", ({ slot_type }) => slot_type],
          ["Nodes", ({ nodes }) => count(nodes), "right"],
          ["Slots each", ({ slots_each }) => slots_each, "right"],
          ["CPUs each", ({ cpus_each }) => cpus_each, "right"],
          ["Memory each", ({ memory_bytes_each }) => bytes(memory_bytes_each), "right"],
          ["Slots free", ({ slots, slots_used }) => count(slots - slots_used), "right"],
        ]}
        command={["clusters"]}
      />
    </Sheet>
  );
}

/** Runs that wait for an approval, if there are any. */
function Staged() {
  const { data } = useAnswer("GET /burst/staged", { everyMs: ASK_MS, runs: "all" });
  const runs = data ?? [];
  const own = runs.filter(({ user }) => mayControl(user));
  if (runs.length === 0) return null;
  return (
    <section class="list">
      <h2>
        Runs to approve
        {own.length > 1 && <FormButton form={approval(own)} />}
      </h2>
      <Rows
        label="Runs to approve"
        rows={runs}
        columns={[
          ["Run", ({ id, name }) => <a href={`/run/${id}`}>{name}</a>],
          ["User", ({ user }) => user],
          ["Age", ({ created_at }) => <Age at={created_at} />, "right"],
          ["", (run) => mayControl(run.user) && <FormButton form={approval([run])} />, "right"],
        ]}
      />
    </section>
  );
}

const wordsOf = ({ id, provider, region, slot_type }: ListedShape) =>
  `${id} ${provider} ${region} ${slot_type}`.toLowerCase();

const endOf = ({ end, text }: Rental) => [end?.replaceAll("_", " "), text].filter(Boolean).join(": ");

function stockOf({ stock }: ListedShape) {
  if (!stock) return <span class="quiet">not tried</span>;
  const found = stock.machines ? count(stock.machines) : `none${stock.text && `: ${stock.text}`}`;
  return (
    <>
      {found}, <Age at={stock.tried_at} word=" ago" />
    </>
  );
}

const REFRESH: Form = {
  verb: "Refresh rates",
  text: "The providers are asked for the present rate of every shape.",
  command: () => ["shapes", "refresh"],
  send: () => ask("POST /shapes/refresh"),
};
