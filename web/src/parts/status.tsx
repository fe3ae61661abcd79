// The status of a run: its state, or its outcome once it has ended. A shape and a word, so that colour is not needed.

import type { JSX } from "preact";

const SHAPES: Record<string, string> = {
  running: "● active",
  starting: "◐ active",
  active: "● active",
  pausing: "◑ waiting",
  preempting: "◑ waiting",
  submitted: "○ waiting",
  queued: "○ waiting",
  pending: "○ waiting",
  paused: "‖ waiting",
  completed: "✓ good",
  failed: "✕ failed",
  invalid: "✕ quiet",
  stopping: "◑ quiet",
  stopped: "■ quiet",
  closed: "◦ quiet",
};

/** `word` stands for it in the words of another system. */
export function Status({ value, word = value }: { value: string; word?: string }): JSX.Element {
  const [shape, tone] = (SHAPES[value] ?? "· quiet").split(" ");
  return (
    <span class={tone === "failed" ? "status failed" : "status"}>
      <span class={`shape ${tone}`} aria-hidden="true">
        {shape}
      </span>
      {word}
    </span>
  );
}
