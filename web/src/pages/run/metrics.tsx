// The metrics of a run: its curves, where its attempts began, and its last, lowest and highest values.

import type { ComponentProps, ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { notifyFailure } from "../../parts/notices.tsx";
import { useAnswer } from "../../state/answer.ts";
import type { Curves } from "../curves/view.tsx";
import type { TabProps } from "./page.tsx";

export function Metrics({ run }: TabProps): JSX.Element {
  const path = { run: run.id };
  const { data } = useAnswer("GET /runs/{run}/attempts", { path, when: run.attempt > 1 });
  const [Shown, setShown] = useState<ComponentType<ComponentProps<typeof Curves>> | null>(null);
  useEffect(() => {
    import("../curves/view.tsx").then(({ Curves }) => setShown(() => Curves), notifyFailure);
  }, []);
  return Shown ? <Shown runs={[run]} attempts={data} /> : <p class="loading">Loading…</p>;
}
