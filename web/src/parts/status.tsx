// The status of a run: its state, or its outcome once it has ended. A shape and a word, so that colour is not needed.

import type { JSX } from "preact";

const SHAPES: Record<string, string> = {
  running: "●",
  starting: "◐",
  pausing: "◑",
  preempting: "◑",
  stopping: "◑",
  submitted: "○",
  queued: "○",
  pending: "○",
  paused: "‖",
  completed: "✓",
  failed: "✕",
  stopped: "■",
  active: "●",
  closed: "◦",
  invalid: "✕",
};

export function Status({ value }: { value: string }): JSX.Element {
  return (
    <span class={`status status-${value}`}>
      <span class="shape" aria-hidden="true">
        {SHAPES[value] ?? "·"}
      </span>
      {value}
    </span>
  );
}
