// The slots in use over the last day: a small area, as high as all slots.

import type { JSX } from "preact";
import type { SlotHistory } from "../../api/types.ts";
import { duration } from "../../parts/amounts.ts";

export function HistoryChart({ history, most }: { history: SlotHistory; most: number }): JSX.Element {
  const { slots, step_s } = history;
  const top = Math.max(most, ...slots, 1);
  const mean = slots.reduce((sum, each) => sum + each, 0) / slots.length;
  const points = slots.map(
    (each, index) => `L${index} ${round(top - each)}L${index + 1} ${round(top - each)}`,
  );
  const share = Math.round((100 * mean) / top);
  const label = `The last ${duration(slots.length * step_s)}: ${round(mean)} of ${top} slots in use, ${share} %`;
  return (
    <svg
      class="slot-chart"
      viewBox={`0 0 ${slots.length} ${top}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <path d={`M0 ${top}${points.join("")}L${slots.length} ${top}Z`} />
    </svg>
  );
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
