// What a submission would start now, and where: the server's dry run; or why it cannot be submitted.

import type { JSX } from "preact";
import type { Refusal } from "../../api/request.ts";
import type { DryRun, Problem as Found } from "../../api/types.ts";
import { Problem } from "../../parts/problem.tsx";

const SHOWN = 8;

interface Props {
  found: DryRun | null;
  refusal: Refusal | null;
  reveal: (problem: Found) => void;
}

export function Preview({ found, refusal, reveal }: Props): JSX.Element {
  if (refusal)
    return (
      <section class="panel cause" aria-label="Problems">
        <Problem problem={refusal} reveal={reveal} />
      </section>
    );
  if (!found) return <p class="quiet">Checking…</p>;
  const { reasons, placement, largest, warnings, nodes, rendered } = found;
  const commands = nodes.flatMap(({ node, workers }) =>
    workers.map(({ role, replica, index, argv }) => `${node} ${role}.${replica}.${index}: ${argv.join(" ")}`),
  );
  const texts = [
    ...reasons.slice(0, SHOWN).map(({ text }) => text),
    ...(largest ? [`The largest request that fits: ${largest}`] : []),
    ...warnings,
  ];
  return (
    <section
      class={reasons.length > 0 || !placement ? "panel waits" : "panel"}
      aria-label="Dry run"
      aria-live="polite"
    >
      <h2>{headline(found)}</h2>
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
      {commands.length > 0 && (
        <details>
          <summary>{commands.length === 1 ? "1 worker" : `${commands.length} workers`}</summary>
          <pre class="source">{[...commands, rendered].slice(0, 100).join("\n")}</pre>
        </details>
      )}
    </section>
  );
}

function headline({ placement, reasons, run }: DryRun): string {
  const would = run.search ? "A search: its first trial would" : "Would";
  if (!placement) return `${would} be placed by its cluster`;
  const nodes = placement.map(({ node, slots }) =>
    slots.length === 0 ? node : `${node} (${slots.length === 1 ? "1 slot" : `${slots.length} slots`})`,
  );
  const where = nodes.length > SHOWN ? `${nodes.length} nodes` : nodes.join(", ");
  return `${would} ${reasons.length > 0 ? "wait, then start" : "start now"} on ${where}`;
}
