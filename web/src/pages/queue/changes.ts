// Changes of the queue: sent to the server, and as the command that does the same.

import { signal } from "@preact/signals";
import { ask, Refusal } from "../../api/request.ts";
import type { QueueChange } from "../../api/types.ts";
import { commandLine } from "../../parts/shell.ts";

/** The last change that was made from this page. */
export const lastChange = signal<{ text: string; command: string } | null>(null);

/** Make changes, all or none, and remember them as `text`. Raises Refusal. */
export async function changeQueue(changes: QueueChange[], text: string): Promise<void> {
  try {
    await ask("POST /queue/changes", { query: { limit: 1 }, body: { changes } });
  } catch (problem) {
    throw problem instanceof Refusal && problem.problems.length > 0 ? readable(problem) : problem;
  }
  lastChange.value = { text, command: commandOf(changes) };
}

/** The same refusal without the change in front of each reason: the person has just made it. */
function readable({ status, problems }: Refusal): Refusal {
  const message = problems.map((each) => each.message.replace(/^\w+\.[^:]*: /, "")).join("\n");
  const hint = problems.flatMap((each) => each.hint ?? []).join("\n");
  return new Refusal(status, { message, hint: hint || null, problems: [] });
}

/** The command that makes these changes of one run. */
export function commandOf(changes: QueueChange[]): string {
  const options = changes.flatMap(({ run: _, ...change }) =>
    Object.entries(change).map(([name, value]) => {
      const option = `--${name.replace("_", "-")}`;
      return value === true ? [option] : [option, String(value)];
    }),
  );
  const verb = changes.some(({ top, ahead_of, behind_of }) => top || ahead_of || behind_of) ? "move" : "set";
  return commandLine("queue", verb, changes[0]?.run ?? "RUN", ...options.flat());
}
