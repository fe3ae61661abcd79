// The metrics of a run: its curves, where its attempts began, and its last, lowest and highest values.

import type { JSX } from "preact";
import { useAnswer } from "../../state/answer.ts";
import { Curves } from "../curves/view.tsx";
import type { TabProps } from "./page.tsx";

export function Metrics({ run }: TabProps): JSX.Element {
  const path = { run: run.id };
  const { data: attempts } = useAnswer("GET /runs/{run}/attempts", { path, when: run.attempt > 1 });
  return <Curves runs={[run]} {...(attempts ? { attempts } : {})} />;
}
