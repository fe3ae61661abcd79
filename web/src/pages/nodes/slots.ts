// What the slots of nodes do, from the nodes and the measured use of runs. Pure.

import type { NodeAnswer, NodeRun, NodeUtilization, RunUtilization } from "../../api/types.ts";

type SlotState = "free" | "used" | "idle" | "drained" | "lost";

export interface Slot {
  state: SlotState;
  run: NodeRun | null;
}

/** The measured use by run and node. */
export type Use = ReadonlyMap<string, readonly NodeUtilization[]>;

export interface Holder {
  user: string;
  run: NodeRun;
  slots: number;
  nodes: string[];
}

const LEAST_CPUS = 0.02;
const OLD_S = 120;

export function useOf(answer: readonly RunUtilization[]): Use {
  return new Map(answer.map(({ run, nodes }) => [run, nodes]));
}

/** The runs that use none of their slots anywhere, by the rules that the server reports idle runs by. */
export function idleRuns(use: Use, now: number): string[] {
  const found = [...use].filter(([, nodes]) => nodes.length > 0 && nodes.every((node) => isIdle(node, now)));
  return found.map(([run]) => run).sort();
}

function isIdle({ at, gpus, cpus, memory_bytes }: NodeUtilization, now: number): boolean {
  if (now - at > OLD_S) return false;
  const works = gpus.length > 0 ? gpus.some(({ busy_percent }) => busy_percent > 0) : cpus >= LEAST_CPUS;
  return !works || memory_bytes === 0;
}

/** Each slot of a node. Slots of a node that is drained show their run until it ends. */
export function slotsOf(node: NodeAnswer, idle: ReadonlySet<string>): Slot[] {
  const holders = new Map(node.runs.flatMap((run) => run.indexes.map((index) => [index, run] as const)));
  let hidden = node.slots_used - holders.size; // of runs that the user may not see
  const gone = node.state === "lost" || node.state === "down";
  return Array.from({ length: node.slots }, (_, index) => {
    const run = holders.get(index) ?? null;
    const drained = node.state === "drained" || (node.drain?.slots.includes(index) ?? false);
    if (gone) return { state: "lost", run };
    if (run) return { state: idle.has(run.id) ? "idle" : "used", run };
    if (hidden > 0) {
      hidden -= 1;
      return { state: "used", run };
    }
    return { state: drained ? "drained" : "free", run };
  });
}

/** Who holds slots without use, most slots first. */
export function idleHolders(nodes: readonly NodeAnswer[], idle: ReadonlySet<string>): Holder[] {
  const found = new Map<string, Holder>();
  for (const node of nodes) {
    for (const run of node.runs) {
      if (!idle.has(run.id) || run.slots === 0) continue;
      const before = found.get(run.id) ?? { user: run.user, run, slots: 0, nodes: [] };
      found.set(run.id, {
        ...before,
        slots: before.slots + run.slots,
        nodes: [...before.nodes, node.name],
      });
    }
  }
  return [...found.values()].sort((one, other) => other.slots - one.slots);
}

/** How busy the measured GPUs of runs on these nodes are, 0 to 1; null if none is measured. */
export function gpuShare(nodes: readonly NodeAnswer[], use: Use): number | null {
  const names = new Set(nodes.map(({ name }) => name));
  const measured = [...use.values()]
    .flat()
    .filter(({ node }) => names.has(node))
    .flatMap(({ gpus }) => gpus);
  if (measured.length === 0) return null;
  return measured.reduce((sum, { busy_percent }) => sum + busy_percent, 0) / measured.length / 100;
}

/** Nodes by cluster and pool, in the order of the nodes. */
export function byPool(nodes: readonly NodeAnswer[]): Map<string, NodeAnswer[]> {
  const found = new Map<string, NodeAnswer[]>();
  for (const node of nodes) {
    const key = `${node.cluster}/${node.pool}`;
    const members = found.get(key);
    if (members) members.push(node);
    else found.set(key, [node]);
  }
  return found;
}
