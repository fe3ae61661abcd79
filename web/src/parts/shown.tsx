// Small things that pages show: commands, facts, shares, statuses, and why something cannot be shown.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ErrorForm, Problem as Found, NodeUtilization } from "../api/types.ts";
import { now } from "../state/session.ts";
import { Button } from "./controls.tsx";
import { commandLine, type Words } from "./shell.ts";
import { age, bytes, duration, time } from "./text.ts";

/** The command that does the same as a button or a page, ready to copy. */
export function Command({ of }: { of: Words | string }) {
  const [copied, setCopied] = useState(false);
  const text = typeof of === "string" ? of : commandLine(...of);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <span class="command">
      <code>{text}</code>
      <Button class="quiet" name={`Copy ${text}`} label={copied ? "copied" : "copy"} onClick={copy} />
    </span>
  );
}

export type Fact = [name: string, value: ComponentChildren];

/** Facts about one thing: their names and values; those without a value are left out. */
export function Facts({ facts }: { facts: Fact[] }) {
  const shown = facts.filter(([, value]) => value || value === 0);
  return (
    <dl>
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** How long ago a time was; the time itself where it is pointed at. */
export function Age({ at, word = "" }: { at: number | null; word?: string }) {
  return <time title={time(at)}>{age(at, now.value) + word}</time>;
}

/** How long something took, or has taken until now; nothing before its start. */
export function Ran({ started_at, ended_at }: { started_at: number | null; ended_at: number | null }) {
  return <>{started_at !== null && duration((ended_at ?? now.value) - started_at)}</>;
}

/** A small bar for a share between 0 and 1, with its meaning as text for those who do not see it. */
export function Bar({ share, label, long }: { share: number; label: string; long?: boolean }) {
  const style = { "--share": `${Math.round(100 * Math.min(1, Math.max(0, share)))}%` };
  return (
    <span class={long ? "meter long" : "meter"} style={style} role="img" aria-label={label} title={label} />
  );
}

/** How busy the GPUs of a run on a node are, and how full. */
export const gpuBars = ({ gpus }: NodeUtilization) =>
  gpus.map(({ index, busy_percent: busy, used_bytes, total_bytes }) => {
    const label = `GPU ${index}: ${busy} % busy, ${bytes(used_bytes)} of ${bytes(total_bytes)}`;
    return <Bar key={index} share={busy / 100} label={label} />;
  });

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

/** The state of a run or an experiment, or its outcome once it has ended. */
export function statusOf(run: { state: string; outcome: string | null }): string {
  return run.state === "ended" ? (run.outcome ?? "ended") : run.state;
}

/** A status: a shape and a word, so that colour is not needed. `word`: as another system calls it. */
export function Status({ value, word = value }: { value: string; word?: string }) {
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

type Refused = Pick<ErrorForm, "message" | "hint" | "problems">;

/** Why something cannot be shown; null: it is loaded. `reveal` leads to the place of a problem in a text. */
export function Problem(props: { problem: Refused | null; reveal?: (found: Found) => void }) {
  if (!props.problem) return <p class="loading">Loading…</p>;
  const { message, hint, problems } = props.problem;
  const nowhere = { line: null, column: null, message, hint, file: null };
  return (
    <div class="message" role="alert">
      {(problems.length > 0 ? problems : [nowhere]).map((found) => {
        const place = found.line !== null && `${found.line}:${found.column ?? 1}`;
        const link = place && props.reveal && (
          <Button class="quiet" label={place} onClick={() => props.reveal?.(found)} />
        );
        return (
          <p key={`${place}:${found.message}`} class="failed">
            {link || (place && <code>{place}</code>)} {found.message} <span class="hint">{found.hint}</span>
          </p>
        );
      })}
    </div>
  );
}
