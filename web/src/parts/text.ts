// Values as text: amounts as the command line writes them, and trees of any values by path.

const UNITS = Object.entries({ d: 86_400, h: 3_600, m: 60, s: 1 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A duration in its two largest units: 3d 4h, 12m 5s, 0s. */
export function duration(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const counts = UNITS.map(([, size], at) => Math.floor((whole % (UNITS[at - 1]?.[1] ?? Infinity)) / size));
  const first = counts.findIndex((count) => count > 0);
  const parts = UNITS.map(([unit], at) => (counts[at] ? `${counts[at]}${unit}` : []));
  const largest = parts.slice(first, first + 2).flat();
  return largest.join(" ") || "0s";
}

/** How long ago a time was, in its largest unit: 5m; "" for none. */
export function age(at: number | null, now: number): string {
  return at === null ? "" : (duration(now - at).split(" ")[0] ?? "");
}

/** The time until `at`, as exact as an estimate: now, in 40 s, in 12 min, in 3 h, in 2 d. */
export function until(at: number, now: number): string {
  const seconds = at - now;
  if (seconds < 1) return "now";
  if (seconds < 90) return `in ${Math.round(seconds)} s`;
  if (seconds < 5_400) return `in ${Math.round(seconds / 60)} min`;
  return seconds < 129_600 ? `in ${Math.round(seconds / 3_600)} h` : `in ${Math.round(seconds / 86_400)} d`;
}

/** A number of bytes in the largest unit that leaves at least one: 1.5 GiB. */
export function bytes(count: number | null): string {
  if (count === null) return "";
  const unit = Math.min(5, Math.floor(Math.log2(Math.max(1, count)) / 10));
  const value = count / 1024 ** unit;
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${BYTES[unit]}`;
}

/** A share as a part of a hundred: 80%. */
export function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** A whole number with thin spaces between thousands: 12 345. */
export function count(value: number): string {
  return value.toLocaleString("en").replaceAll(",", "\u202f");
}

/** A time of the server on this browser's clock: 2026-11-28 09:30:05. */
export function time(at: number | null): string {
  if (at === null) return "";
  const date = new Date(at * 1000);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19).replace("T", " ");
}

/** A value in few characters: numbers have five digits. */
export function short(value: unknown): string {
  if (typeof value === "number")
    return String(Number.isInteger(value) ? value : Number(value.toPrecision(5)));
  return typeof value === "string" ? value : (JSON.stringify(value ?? undefined) ?? "");
}

/** The values of a tree by their paths, as in `roles[0].slots`. A list of plain values is one value. */
export function flat(tree: unknown, path = ""): Record<string, unknown> {
  const deep =
    tree !== null && typeof tree === "object" && !(Array.isArray(tree) && typeof tree[0] !== "object");
  if (!deep || Object.keys(tree).length === 0) return path ? { [path]: tree } : {};
  const inner = (name: string) => (Array.isArray(tree) ? `[${name}]` : path ? `.${name}` : name);
  return Object.assign({}, ...Object.entries(tree).map(([name, each]) => flat(each, path + inner(name))));
}

/** The names of values that differ between trees. */
export function differing(trees: unknown[]): string[] {
  const rows = trees.map((tree) => flat(tree));
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return names.filter((name) => new Set(rows.map((row) => JSON.stringify(row[name]))).size > 1);
}
