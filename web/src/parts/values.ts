// Values of any kind: as text, and trees of them by path.

/** A value in few characters: numbers have five digits. */
export function short(value: unknown): string {
  if (typeof value === "number")
    return String(Number.isInteger(value) ? value : Number(value.toPrecision(5)));
  return typeof value === "string" ? value : (JSON.stringify(value ?? undefined) ?? "");
}

/** The values of a tree by their dotted paths. A list of plain values is one value. */
export function flat(tree: unknown, path = ""): Record<string, unknown> {
  const deep =
    tree !== null && typeof tree === "object" && !(Array.isArray(tree) && typeof tree[0] !== "object");
  if (!deep || Object.keys(tree).length === 0) return path ? { [path]: tree } : {};
  const inner = Object.entries(tree).map(([name, each]) => flat(each, path ? `${path}.${name}` : name));
  return Object.assign({}, ...inner);
}

/** The names of values that differ between trees. */
export function differing(trees: unknown[]): string[] {
  const rows = trees.map((tree) => flat(tree));
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return names.filter((name) => new Set(rows.map((row) => JSON.stringify(row[name]))).size > 1);
}
