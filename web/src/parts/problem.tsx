// Why something cannot be shown.

import type { JSX } from "preact";
import type { Refusal } from "../api/request.ts";

export function Problem({ problem }: { problem: Refusal }): JSX.Element {
  return (
    <div class="message" role="alert">
      <p class="failed">{problem.message}</p>
      {problem.hint && <p class="hint">{problem.hint}</p>}
      {problem.problems.length > 0 && (
        <ul>
          {problem.problems.map(({ message, line, column }) => (
            <li key={`${line}:${column}:${message}`}>
              {line !== null && <code>{`${line}:${column ?? 1}`}</code>} {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
