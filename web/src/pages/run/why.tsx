// Why a run waits: the reason, what would start it, when it may start, and the reason of each node.

import type { JSX } from "preact";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { Rows } from "../../parts/list.tsx";
import { useAnswer } from "../../state/answer.ts";
import type { TabProps } from "./page.tsx";

const ASK_MS = 5_000;

export function WhyView({ run }: Pick<TabProps, "run">): JSX.Element | null {
  const details = { path: { run: run.id }, everyMs: ASK_MS, runs: [run.id] };
  const { data: why } = useAnswer("GET /runs/{run}/why", details);
  if (!why) return null;
  const nodes = new Map<string, string[]>();
  for (const { text, node } of why.reasons)
    if (node !== null) nodes.set(text, [...(nodes.get(text) ?? []), node]);
  const general = why.reasons.filter(({ node }) => node === null).map(({ text }) => text);
  return (
    <div class="panel waits">
      <h2>{why.headline}</h2>
      {[why.estimate?.text, why.unblocked_by, ...general].map((text) => text && <p key={text}>{text}</p>)}
      {why.ahead > 0 && (
        <p>
          {count(why.ahead)} ahead:{" "}
          {why.ahead_first.map(({ id, name }, index) => (
            <span key={id}>
              {index > 0 && ", "}
              <a href={`/run/${id}`}>{name}</a>
            </span>
          ))}
          {why.ahead > why.ahead_first.length && ", …"}
        </p>
      )}
      {nodes.size > 0 && (
        <Rows
          label="Reasons of nodes"
          rows={[...nodes]}
          columns={[
            ["Reason", ([text]) => text],
            ["Nodes", ([, names]) => (names.length > 3 ? `${count(names.length)} nodes` : names.join(", "))],
          ]}
        />
      )}
      {why.hook_changes.map((change) => (
        <p key={change} class="quiet">
          {change}
        </p>
      ))}
      <Command text={`tarmac why ${run.id}`} />
    </div>
  );
}
