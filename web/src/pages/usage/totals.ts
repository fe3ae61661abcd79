// Sums of used slot-time: pure functions of the pages of usage and projects.

import type { UsedSlots } from "../../api/types.ts";

export type Group = "user" | "project" | "pool" | "day" | "month";

export interface Total {
  name: string;
  slot_s: number;
  runs: number;
}

/** The sums of each group: the largest first, of days and months the newest. A run counts where it began. */
export function totals(parts: UsedSlots[], by: Group): Total[] {
  const groups = Map.groupBy(parts, (part) => nameOf(part, by));
  const found = [...groups].map(([name, used]): Total => {
    const sum = (field: "slot_s" | "runs") => used.reduce((total, part) => total + part[field], 0);
    return { name, slot_s: sum("slot_s"), runs: sum("runs") };
  });
  const newest = by === "day" || by === "month";
  return found.sort((one, other) =>
    newest ? other.name.localeCompare(one.name) : other.slot_s - one.slot_s,
  );
}

function nameOf(part: UsedSlots, by: Group): string {
  if (by === "pool") return `${part.cluster}/${part.pool}`;
  if (by === "user" || by === "project") return part[by];
  return new Date((part.begin_at ?? 0) * 1000).toISOString().slice(0, by === "day" ? 10 : 7);
}

/** Totals as CSV; a name that a spreadsheet would calculate is a text. */
export function csvOf(rows: Total[], by: string): string {
  const cell = (text: string) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = rows.map(({ name, slot_s, runs }) => `${cell(name)},${slot_s / 3600},${runs}`);
  return [`${by},slot_hours,runs`, ...lines, ""].join("\n");
}
