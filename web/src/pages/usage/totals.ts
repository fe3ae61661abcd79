// Sums of used slot-time: pure functions of the pages of usage and projects.

import type { UsedSlots } from "../../api/types.ts";

export type Group = "user" | "project" | "pool";

export interface Total {
  name: string;
  slot_s: number;
  runs: number;
}

/** The sums for each user, project or pool, the largest first. A run in two pools counts in both. */
export function totals(parts: UsedSlots[], by: Group): Total[] {
  const nameOf = (part: UsedSlots) => (by === "pool" ? `${part.cluster}/${part.pool}` : part[by]);
  const names = [...new Set(parts.map(nameOf))];
  const found = names.map((name) =>
    sum(
      name,
      parts.filter((part) => nameOf(part) === name),
    ),
  );
  return found.sort((one, other) => other.slot_s - one.slot_s);
}

/** The sum of parts, under a name. */
export function sum(name: string, parts: UsedSlots[]): Total {
  const add = (field: "slot_s" | "runs") => parts.reduce((total, part) => total + part[field], 0);
  return { name, slot_s: add("slot_s"), runs: add("runs") };
}

/** Totals as CSV; a name that a spreadsheet would calculate is a text. */
export function csvOf(rows: Total[], by: string): string {
  const cell = (text: string) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = rows.map(({ name, slot_s, runs }) => `${cell(name)},${slot_s / 3600},${runs}`);
  return [`${by},slot_hours,runs`, ...lines, ""].join("\n");
}
