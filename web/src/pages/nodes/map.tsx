// The map of slots: a box for each node, a square for each slot. Arrows move between nodes, Enter chooses one.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import type { NodeAnswer } from "../../api/types.ts";
import { type Slot, slotsOf } from "./slots.ts";

/** What is under the pointer, or has the focus, in words. */
export const pointed = signal("");

/** The same values as before where their content is the same, so that what shows them stays too. */
export function useSame<T>(values: readonly T[]): T[] {
  const before = useRef(new Map<string, T>());
  return useMemo(() => {
    const next = new Map(values.map((value) => [JSON.stringify(value), value]));
    for (const key of next.keys()) {
      const known = before.current.get(key);
      if (known !== undefined) next.set(key, known);
    }
    before.current = next;
    return [...next.values()];
  }, [values]);
}

interface Props {
  nodes: NodeAnswer[];
  idle: ReadonlySet<string>;
  chosen: string[];
  /** `adds`: to the chosen nodes, instead of them. */
  onChoose: (name: string, adds: boolean) => void;
}

export function SlotMap({ nodes, idle, chosen, onChoose }: Props): JSX.Element {
  const stop = nodes.find(({ name }) => chosen.includes(name))?.name ?? nodes[0]?.name;
  function onKeyDown(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
    const boxes = [...event.currentTarget.querySelectorAll<HTMLElement>(".node")];
    const at = boxes.indexOf(event.target as HTMLElement);
    const top = boxes[0]?.offsetTop;
    const across = Math.max(1, boxes.filter(({ offsetTop }) => offsetTop === top).length);
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: across,
      ArrowUp: -across,
      Home: -at,
      End: boxes.length - 1 - at,
    };
    const step = steps[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    boxes[at + step]?.focus();
  }
  return (
    <div class="map" role="toolbar" aria-label="Nodes" onKeyDown={onKeyDown}>
      {nodes.map((node) => (
        <NodeBox
          key={node.name}
          node={node}
          idle={idle}
          chosen={chosen.includes(node.name)}
          stop={node.name === stop}
          onChoose={onChoose}
        />
      ))}
    </div>
  );
}

interface BoxProps {
  node: NodeAnswer;
  idle: ReadonlySet<string>;
  chosen: boolean;
  stop: boolean;
  onChoose: Props["onChoose"];
}

function NodeBox({ node, idle, chosen, stop, onChoose }: BoxProps): JSX.Element {
  return useMemo(() => {
    const slots = slotsOf(node, idle);
    const parity = new Map(node.runs.map(({ id }, index) => [id, index % 2]));
    return (
      <button
        type="button"
        class={`node node-${node.state}`}
        style={sizeOf(node.slots)}
        aria-pressed={chosen}
        aria-label={textOf(node)}
        tabIndex={stop ? 0 : -1}
        onClick={(event) => onChoose(node.name, event.shiftKey || event.ctrlKey || event.metaKey)}
        onFocus={() => (pointed.value = textOf(node))}
        onMouseOver={({ target }) => {
          const index = (target as HTMLElement).dataset.slot;
          pointed.value = index === undefined ? textOf(node) : slotText(node, slots[Number(index)], index);
        }}
      >
        <span class="node-name">{node.name}</span>
        <span class="slots">
          {slots.map(({ state, run }, index) => (
            <span
              key={index}
              class={`slot slot-${state}`}
              data-slot={index}
              data-odd={run && parity.get(run.id) ? "" : undefined}
            />
          ))}
        </span>
      </button>
    );
  }, [node, idle, chosen, stop]);
}

const SLOT_PX = 12;
const ACROSS = 8;
const LEAST_PX = 72;

/** The size of a box, known beforehand: boxes out of view need no layout. */
function sizeOf(slots: number): Record<string, string> {
  const width = Math.max(LEAST_PX, Math.min(slots, ACROSS) * SLOT_PX + 8);
  return { width: `${width}px`, containIntrinsicBlockSize: `${22 + Math.ceil(slots / ACROSS) * SLOT_PX}px` };
}

/** A node in words: its state, its slots, and its runs. */
function textOf(node: NodeAnswer): string {
  const runs = node.runs.map(({ name, user, slots }) => `${name} (${user}) ${slots}`);
  const state = node.state === "up" ? "" : `, ${node.state}${node.reason ? `: ${node.reason}` : ""}`;
  return `${node.name}${state}, ${node.slots_used} of ${node.slots} slots used${runs.length > 0 ? `: ${runs.join(", ")}` : ""}`;
}

function slotText({ name }: NodeAnswer, slot: Slot | undefined, index: string): string {
  const run = slot?.run;
  const what = run
    ? `${run.name} of ${run.user}${slot.state === "idle" ? ", which does not use it" : ""}`
    : slot?.state;
  return `${name}, slot ${index}: ${what}`;
}
