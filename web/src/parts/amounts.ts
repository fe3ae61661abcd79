// Amounts as text: as the command line writes them.

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** A duration in its two largest units: 3d 4h, 12m 5s, 0s. */
export function duration(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return "";
  let rest = Math.max(0, Math.floor(seconds));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0s";
}

/** How long ago a time was, in its largest unit: 5m; "" for none. */
export function age(at: number | null, now: number): string {
  return at === null ? "" : (duration(now - at).split(" ")[0] ?? "");
}

/** The time until `at`, as exact as an estimate: now, in 40 s, in 12 min, in 3 h, in 2 d. */
export function until(at: number, now: number): string {
  const seconds = at - now;
  if (seconds < 1) return "now";
  const units: [string, number, number][] = [
    ["s", 1, 90],
    ["min", 60, 90],
    ["h", 3600, 36],
  ];
  const found = units.find(([, size, most]) => seconds < size * most) ?? ["d", 86_400];
  return `in ${Math.max(1, Math.round(seconds / found[1]))} ${found[0]}`;
}

/** A number of bytes in the largest unit that leaves at least one: 1.5 GiB. */
export function bytes(count: number | null): string {
  if (count === null) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${units[unit]}`;
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
