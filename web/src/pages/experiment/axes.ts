// Values of trials as places on axes: pure functions of the plots.

import { short } from "../../parts/text.ts";

export interface Axis {
  name: string;
  /** The place of a value between 0 and 1; null if it has none. */
  place: (value: unknown) => number | null;
  ticks: { text: string; at: number }[];
}

const TICKS = 4;

/** An axis for values: of numbers, `log`: by their logarithms; or of texts. */
export function axisOf(name: string, values: unknown[], log: boolean): Axis {
  const given = values.filter((value) => value !== null && value !== undefined);
  const numbers = given.filter((value) => typeof value === "number");
  if (numbers.length < given.length || numbers.length === 0) return textAxis(name, given.map(short));
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const scale = log && low > 0 ? Math.log10 : (value: number) => value;
  const at = (value: number) =>
    high === low ? 0.5 : (scale(value) - scale(low)) / (scale(high) - scale(low));
  const ticks = (log && low > 0 ? powers(low, high) : steps(low, high)).map((value) => ({
    text: short(value),
    at: at(value),
  }));
  return { name, ticks, place: (value) => (typeof value === "number" ? at(value) : null) };
}

function textAxis(name: string, given: string[]): Axis {
  const texts = [...new Set(given)].sort();
  const ticks = texts.map((text, index) => ({ text, at: (index + 0.5) / texts.length }));
  return { name, ticks, place: (value) => ticks.find(({ text }) => text === short(value))?.at ?? null };
}

function powers(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low));
  const count = Math.floor(Math.log10(high)) - first + 1;
  return count > 0 ? Array.from({ length: count }, (_, index) => Number(`1e${first + index}`)) : [low, high];
}

/** Round numbers between two. */
function steps(low: number, high: number): number[] {
  const rough = (high - low) / TICKS;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5].find((each) => each * size >= rough) ?? 10);
  if (!(step > 0)) return [low];
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}
