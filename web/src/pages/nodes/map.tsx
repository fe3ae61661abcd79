// The map of slots: a box for each node, a square for each slot. Arrows move between nodes, Enter chooses one.

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { NodeAnswer } from "../../api/types.ts";
import { query, setQuery, toggled } from "../../state/place.ts";
import { type Slot, slotsOf } from "./slots.ts";

/** What is under the pointer, or has the focus, in words. */
export const pointed = signal("");

/** Choose a node; `adds`: to the chosen nodes, instead of them. A chosen one is chosen no longer. */
function choose(name: string, adds: boolean): void {
  const names = query.peek().getAll("node");
  const kept = adds || names.every((each) => each === name) ? names : [];
  setQuery({ node: toggled(kept, name) }, { replace: true });
}

interface Props {
  nodes: NodeAnswer[];
  idle: ReadonlySet<string>;
  chosen: string[];
}

export function SlotMap({ nodes, idle, chosen }: Props) {
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
    <div class="row wrap map" role="toolbar" aria-label="Nodes" onKeyDown={onKeyDown}>
      {nodes.map((node) => {
        const on = chosen.includes(node.name);
        return <NodeBox key={node.name} {...{ node, idle, on }} stop={node.name === stop} />;
      })}
    </div>
  );
}

interface BoxProps extends Pick<Props, "idle"> {
  node: NodeAnswer;
  on: boolean;
  stop: boolean;
}

/** A node: drawn again only where its content changes. */
function NodeBox({ node, idle, on, stop }: BoxProps) {
  return useMemo(() => {
    const slots = slotsOf(node, idle);
    const parity = new Map(node.runs.map(({ id }, index) => [id, index % 2]));
    return (
      <button
        type="button"
        class={`button toggle stack node node-${node.state}`}
        style={sizeOf(node.slots)}
        aria-pressed={on}
        aria-label={textOf(node)}
        tabIndex={stop ? 0 : -1}
        onClick={(event) => choose(node.name, event.shiftKey || event.ctrlKey || event.metaKey)}
        onFocus={() => (pointed.value = textOf(node))}
        onMouseOver={({ target }) => {
          const index = (target as HTMLElement).dataset.slot;
          pointed.value = index === undefined ? textOf(node) : slotText(node, slots[Number(index)], index);
        }}
      >
        <span class="node-name">{node.name}</span>
        <span class="row wrap slots">
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
  }, [JSON.stringify(node), idle, on, stop]);
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
function textOf({ name, state, reason, slots, slots_used, runs }: NodeAnswer): string {
  const parts = [
    name,
    state !== "up" && (reason ? `${state}: ${reason}` : state),
    `${slots_used} of ${slots} slots used`,
  ];
  const users = runs.map((run) => `${run.name} (${run.user}) ${run.slots}`);
  return [parts.filter(Boolean).join(", "), users.join(", ")].filter(Boolean).join(": ");
}

function slotText({ name }: NodeAnswer, slot: Slot | undefined, index: string): string {
  const idle = slot?.state === "idle" ? ", which does not use it" : "";
  return `${name}, slot ${index}: ${slot?.run ? `${slot.run.name} of ${slot.run.user}${idle}` : slot?.state}`;
}
