// The history of a run: a bar of its states over time, which opens the list of its events.

import type { JSX } from "preact";
import { duration, time } from "../../parts/amounts.ts";
import { Rows } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import type { TabProps } from "./page.tsx";

export function History({ run }: Pick<TabProps, "run">): JSX.Element {
  const { data } = useAnswer("GET /runs/{run}/events", { path: { run: run.id }, runs: [run.id] });
  const events = data?.map((each, index) => ({ ...each, before: data[index - 1] })) ?? [];
  const begins = events.filter(({ state, before }) => state !== before?.state);
  return (
    <details class="states">
      <summary title="History">
        {begins.map(({ seq, state, at }, index) => {
          const seconds = Math.max(0, (begins[index + 1]?.at ?? now.value) - at);
          const text = `${state} ${duration(seconds)}`;
          return (
            state !== "ended" && (
              <span key={seq} class={`period period-${state}`} title={text} style={{ flexGrow: seconds }}>
                {text}
              </span>
            )
          );
        })}
        <span class="quiet">&ensp;History</span>
      </summary>
      <Rows
        label="History"
        rows={events}
        columns={[
          ["Time", ({ at }) => time(at)],
          ["After", ({ at, before }) => before && duration(at - before.at), "right"],
          ["State", ({ state }) => <Status value={state} />],
          ["Event", ({ event }) => event.replaceAll("_", " ")],
          ["By", ({ actor }) => actor],
        ]}
      />
    </details>
  );
}
