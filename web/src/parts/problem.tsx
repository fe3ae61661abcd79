// Why something cannot be shown, or was refused; or that it is being loaded.

import type { JSX } from "preact";
import type { ErrorForm, Problem as Found } from "../api/types.ts";

type Refused = Pick<ErrorForm, "message" | "hint" | "problems">;

/** `reveal` leads to the place of a problem in a text. */
export function Problem(props: { problem: Refused | null; reveal?: (found: Found) => void }): JSX.Element {
  if (!props.problem) return <p class="loading">Loading…</p>;
  const { message, hint, problems } = props.problem;
  const nowhere = { line: null, column: null, message, hint, file: null };
  return (
    <div class="message" role="alert">
      {(problems.length > 0 ? problems : [nowhere]).map((found) => {
        const place = found.line !== null && `${found.line}:${found.column ?? 1}`;
        return (
          <p key={`${place}:${found.message}`} class="failed">
            {place &&
              (props.reveal ? (
                <button type="button" class="quiet" onClick={() => props.reveal?.(found)}>
                  {place}
                </button>
              ) : (
                <code>{place}</code>
              ))}{" "}
            {found.message} <span class="hint">{found.hint}</span>
          </p>
        );
      })}
    </div>
  );
}
