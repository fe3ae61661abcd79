// What a submission would start now, and where: the server's dry run; or why it cannot be submitted.

import type { JSX } from "preact";
import type { Refusal } from "../../api/request.ts";
import type { DryRun, Problem } from "../../api/types.ts";

const SHOWN = 8;

interface Props {
  found: DryRun | null;
  refusal: Pick<Refusal, "message" | "hint" | "problems"> | null;
  onProblem: (problem: Problem) => void;
}

export function Preview({ found, refusal, onProblem }: Props): JSX.Element {
  if (refusal) {
    return (
      <section class="panel cause" aria-label="Problems" aria-live="polite">
        {refusal.problems.length === 0 && (
          <h2>
            {refusal.message} <span class="hint">{refusal.hint}</span>
          </h2>
        )}
        {refusal.problems.map((problem) => (
          <p key={`${problem.line}:${problem.column}:${problem.message}`}>
            {problem.line !== null && (
              <button type="button" class="quiet" onClick={() => onProblem(problem)}>
                {`${problem.line}:${problem.column ?? 1}`}
              </button>
            )}
            {problem.message} {problem.hint && <span class="hint">{problem.hint}</span>}
          </p>
        ))}
      </section>
    );
  }
  if (!found) return <p class="quiet">Checking…</p>;
  const waits = found.reasons.length > 0 || found.placement === null;
  const commands = found.nodes.flatMap(({ node, workers }) =>
    workers.map(({ role, replica, index, argv }) => `${node} ${role}.${replica}.${index}: ${argv.join(" ")}`),
  );
  const texts = [
    ...found.reasons.slice(0, SHOWN).map(({ text }) => text),
    ...(found.largest ? [`The largest request that fits: ${found.largest}`] : []),
    ...found.warnings,
  ];
  return (
    <section class={waits ? "panel waits" : "panel"} aria-label="Dry run" aria-live="polite">
      <h2>{headline(found)}</h2>
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
      {commands.length > 0 && (
        <details>
          <summary>{commands.length === 1 ? "1 worker" : `${commands.length} workers`}</summary>
          <pre class="source">{[...commands, found.rendered].slice(0, 100).join("\n")}</pre>
        </details>
      )}
    </section>
  );
}

function headline({ placement, reasons }: DryRun): string {
  if (!placement) return "Would be placed by its cluster";
  const nodes = placement.map(({ node, slots }) =>
    slots.length === 0 ? node : `${node} (${slots.length === 1 ? "1 slot" : `${slots.length} slots`})`,
  );
  const where = nodes.length > SHOWN ? `${nodes.length} nodes` : nodes.join(", ");
  return reasons.length > 0 ? `Would wait, then start on ${where}` : `Would start now on ${where}`;
}
