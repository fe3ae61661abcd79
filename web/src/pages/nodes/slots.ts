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
  const held = nodes.flatMap(({ name, runs }) => runs.map((run) => ({ name, run })));
  const idly = held.filter(({ run: { id, slots } }) => idle.has(id) && slots > 0);
  const found = [...Map.groupBy(idly, ({ run }) => run.id).values()].map((parts): Holder => {
    const slots = parts.reduce((sum, { run }) => sum + run.slots, 0);
    const [{ run }] = parts as [(typeof parts)[number]];
    return { user: run.user, run, slots, nodes: parts.map(({ name }) => name) };
  });
  return found.sort((one, other) => other.slots - one.slots);
}

/** How busy the measured GPUs of runs on these nodes are, 0 to 1; null if none is measured. */
export function gpuShare(nodes: readonly NodeAnswer[], use: Use): number | null {
  const names = new Set(nodes.map(({ name }) => name));
  const measured = [...use.values()].flat().filter(({ node }) => names.has(node));
  const busy = measured.flatMap(({ gpus }) => gpus.map(({ busy_percent }) => busy_percent));
  return busy.length === 0 ? null : busy.reduce((sum, each) => sum + each, 0) / busy.length / 100;
}
