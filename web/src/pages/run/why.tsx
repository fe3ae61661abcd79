// Why a run waits: the reason, what would start it, when it may start, and the reason of each node.

import type { JSX } from "preact";
import type { Reason } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { useAnswer } from "../../state/answer.ts";
import type { TabProps } from "./page.tsx";

const ASK_MS = 5_000;

export function WhyView({ run }: Pick<TabProps, "run">): JSX.Element | null {
  const { data: why } = useAnswer("GET /runs/{run}/why", {
    path: { run: run.id },
    everyMs: ASK_MS,
    runs: [run.id],
  });
  if (!why) return null;
  const general = why.reasons.filter(({ node }) => node === null);
  const nodes = grouped(why.reasons.filter(({ node }) => node !== null));
  return (
    <div class="panel waits">
      <h2>{why.headline}</h2>
      {why.estimate && <p>{why.estimate.text}</p>}
      {why.unblocked_by && <p>{why.unblocked_by}</p>}
      {general.map(({ text }) => (
        <p key={text}>{text}</p>
      ))}
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
      {nodes.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Reason</th>
              <th scope="col">Nodes</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map(([text, names]) => (
              <tr key={text}>
                <td>{text}</td>
                <td title={names.join(", ")}>
                  {names.length > 3 ? `${count(names.length)} nodes` : names.join(", ")}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
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

function grouped(reasons: Reason[]): [string, string[]][] {
  const found = new Map<string, string[]>();
  for (const { text, node } of reasons) found.set(text, [...(found.get(text) ?? []), node ?? ""]);
  return [...found];
}
