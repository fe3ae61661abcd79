// Shapes, `/shapes`: what each cluster has to request, by kind of node. No cluster rents machines yet.

import type { JSX } from "preact";
import { bytes, count } from "../../parts/amounts.ts";
import { List, Sheet } from "../../parts/list.tsx";

export function ShapesPage(): JSX.Element {
  return (
    <Sheet title="Shapes">
      <p>No cluster with rented machines is set up.</p>
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
        command="tarmac clusters"
        empty="There is no cluster."
      />
    </Sheet>
  );
}
