// The map of slots shows what each slot does, and who holds slots without use.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeAnswer } from "../src/api/types.ts";
import { gpuShare, idleHolders, idleRuns, slotsOf, useOf } from "../src/pages/nodes/slots.ts";

const NODE: NodeAnswer = {
  name: "n1",
  cluster: "local",
  pool: "default",
  shard: null,
  hostname: "n1",
  address: "",
  state: "up",
  reason: "",
  drain: null,
  slot_type: "h100",
  slots: 4,
  slots_used: 2,
  cpus: 8,
  memory_bytes: 1,
  own_disk: false,
  runs: [{ id: "a", name: "train", user: "ada", slots: 2, indexes: [1, 3] }],
};
const GPU = { index: 0, busy_percent: 0, used_bytes: 1, total_bytes: 2 };
const MEASURED = { node: "n1", at: 100, memory_bytes: 5, cpus: 0, gpus: [GPU] };

function states(node: NodeAnswer, idle: string[] = []): string[] {
  return slotsOf(node, new Set(idle)).map(({ state }) => state);
}

test("a slot is used by the run that has its index, or idle with it", () => {
  assert.deepEqual(states(NODE), ["free", "used", "free", "used"]);
  assert.deepEqual(states(NODE, ["a"]), ["free", "idle", "free", "idle"]);
});

test("slots of a drained or lost node are no free slots", () => {
  const drain = { user: "ada", at: 1, reason: "", slots: [0] };
  assert.deepEqual(states({ ...NODE, drain }), ["drained", "used", "free", "used"]);
  assert.deepEqual(states({ ...NODE, state: "drained" }), ["drained", "used", "drained", "used"]);
  assert.deepEqual(new Set(states({ ...NODE, state: "lost" })), new Set(["lost"]));
});

test("slots of runs that the user may not see are used", () => {
  assert.deepEqual(states({ ...NODE, runs: [] }), ["used", "used", "free", "free"]);
});

test("a run is idle if all its nodes are, by measurements of the last two minutes", () => {
  const busy = { ...MEASURED, node: "n2", gpus: [{ ...GPU, busy_percent: 50 }] };
  const idle = (nodes: (typeof MEASURED)[], at = 110) => idleRuns(useOf([{ run: "a", nodes }]), at);
  assert.deepEqual(idle([MEASURED]), ["a"]);
  assert.deepEqual(idle([MEASURED, busy]), []);
  assert.deepEqual(idle([MEASURED], 300), []);
  assert.deepEqual(idle([]), []);
  assert.deepEqual(idle([{ ...MEASURED, gpus: [], cpus: 0.5 }]), []);
});

test("holders of idle slots are sorted by their slots", () => {
  const large = { id: "b", name: "large", user: "bo", slots: 4, indexes: [0, 1, 2, 3] };
  const nodes = [NODE, { ...NODE, name: "n2", runs: [large] }, { ...NODE, name: "n3", runs: [large] }];
  const found = idleHolders(nodes, new Set(["a", "b"]));
  assert.deepEqual(
    found.map(({ user, slots, nodes: names }) => [user, slots, names]),
    [
      ["bo", 8, ["n2", "n3"]],
      ["ada", 2, ["n1"]],
    ],
  );
});

test("the share of busy GPUs is of the measured ones", () => {
  const use = useOf([{ run: "a", nodes: [{ ...MEASURED, gpus: [GPU, { ...GPU, busy_percent: 50 }] }] }]);
  assert.equal(gpuShare([NODE], use), 0.25);
  assert.equal(gpuShare([{ ...NODE, name: "n2" }], use), null);
});
