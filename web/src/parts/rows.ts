// Rows that are all here: in an order, and as a table takes them.

import type { Rows } from "./table.tsx";

/** Rows for a table, by the value that `sort` names; after "-" the last first, and none always last. */
export function sorted<Row>(
  rows: Row[],
  sort: string,
  fieldOf: (row: Row, name: string) => unknown,
): Rows<Row> {
  const name = sort.replace(/^-/, "");
  const sign = sort === name ? 1 : -1;
  const found = rows.map((row) => ({ row, value: fieldOf(row, name) ?? null }));
  found.sort(({ value: one }, { value: other }) => {
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other), "en", { numeric: true });
  });
  return { total: found.length, at: (index) => found[index]?.row, view: () => {} };
}
