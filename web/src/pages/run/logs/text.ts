// The text of a line of a log: ANSI colours as classes, marks of a search, and hidden characters made visible.
//
// Of the sequences of terminals only colours and bold have an effect; others that move a cursor are dropped. All
// other control characters, and those that reorder text, are shown as signs: a log cannot disguise its text.

import { HIDDEN, signOf } from "../../../parts/signs.ts";

export interface Part {
  text: string;
  /** The classes of the part, "" for plain text. */
  kind: string;
  marked?: boolean;
}

const NONE: number | null = null;
const PLAIN = { fore: NONE, back: NONE, bold: false, inverse: false };
type Style = typeof PLAIN;
const COLOURS = 16;

/** The tokens of the eight colours of terminals, in their order. */
export const HUES = ["faint", "bad", "good", "waits", "link", "magenta", "cyan", "ink"];

// Orders to a terminal that set colours (SGR), its other orders, and the rest: a line has no line ends.
const SPECIAL = new RegExp(`\\u001b\\[([0-9;:]*)m|\\u001b\\[[0-?]*[ -/]*[@-~]|[\\n\\r${HIDDEN}]`, "g");

/** The parts of a line, in order. */
export function partsOf(line: string): Part[] {
  const parts: Part[] = [];
  let style: Style = PLAIN;
  let at = 0;
  const add = (text: string, kind: string): void => {
    if (text) parts.push({ text, kind });
  };
  for (const found of line.matchAll(SPECIAL)) {
    add(line.slice(at, found.index), kindOf(style));
    at = found.index + found[0].length;
    if (found[1] !== undefined) style = changed(style, found[1]);
    else if (found[0].length === 1) add(signOf(found[0]), "sign");
  }
  add(line.slice(at), kindOf(style));
  return parts;
}

/** The parts with the places of `text` marked; upper and lower case are equal. */
export function marked(parts: Part[], text: string): Part[] {
  const whole = parts.map((part) => part.text).join("");
  const lowered = whole.toLowerCase();
  const sought = text.toLowerCase();
  if (!sought || lowered.length !== whole.length) return parts;
  const hits = new Set<number>(); // the places of characters
  for (let at = lowered.indexOf(sought); at >= 0; at = lowered.indexOf(sought, at + sought.length)) {
    for (let each = at; each < at + sought.length; each += 1) hits.add(each);
  }
  if (hits.size === 0) return parts;
  const result: Part[] = [];
  let place = 0;
  for (const { text: all, kind } of parts) {
    for (let begin = 0, end = 0; begin < all.length; begin = end) {
      const marked = hits.has(place + begin);
      while (end < all.length && hits.has(place + end) === marked) end += 1;
      result.push({ text: all.slice(begin, end), kind, marked });
    }
    place += all.length;
  }
  return result;
}

function kindOf({ fore, back, bold, inverse }: Style): string {
  const colour = back ?? fore;
  const kinds = colour === null ? [] : [`colour-${colour % 8}`, colour >= 8 && "bright"];
  return [...kinds, (back !== null || inverse) && "on", bold && "bold"].filter(Boolean).join(" ");
}

function changed(style: Style, codes: string): Style {
  let next = style;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    const name = code % 60 < 40 ? "fore" : "back"; // bright ones are 60 above: 90 to 97, 100 to 107
    if (code === 0) next = PLAIN;
    else if (code === 1 || code === 22) next = { ...next, bold: code === 1 };
    else if (code === 7 || code === 27) next = { ...next, inverse: code === 7 };
    else if (code === 39 || code === 49) next = { ...next, [name]: null };
    else if (code === 38 || code === 48) {
      const colour = numbers[at + 2] ?? COLOURS;
      if (numbers[at + 1] === 5 && colour < COLOURS) next = { ...next, [name]: colour };
      at += numbers[at + 1] === 5 ? 2 : 4;
    } else if ((code >= 30 && code < 48) || (code >= 90 && code < 108))
      next = { ...next, [name]: (code % 10) + (code >= 90 ? 8 : 0) };
  }
  return next;
}
