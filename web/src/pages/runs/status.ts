// The status of a run, and its time, as tables and pages show them.

import type { RunSummary } from "../../api/types.ts";

/** The state of a run or an experiment, or its outcome once it has ended. */
export function statusOf(run: { state: string; outcome: string | null }): string {
  return run.state === "ended" ? (run.outcome ?? "ended") : run.state;
}

/** The seconds for which a run has been running; null before its start. */
export function ranFor(run: Pick<RunSummary, "started_at" | "ended_at">, at: number): number | null {
  return run.started_at === null ? null : (run.ended_at ?? at) - run.started_at;
}
