// Lines of logs: colours become classes, nothing else of a terminal has an effect, and hidden characters are signs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { marked, partsOf } from "../src/pages/run/logs/text.ts";

const ESC = "\u001b";

function shown(line: string): string {
  return partsOf(line)
    .map(({ text, kind }) => (kind ? `[${kind}:${text}]` : text))
    .join("");
}

test("colours and bold are classes", () => {
  assert.equal(
    shown(`a ${ESC}[31mred${ESC}[0m ${ESC}[1;94mblue${ESC}[m z`),
    "a [colour-1:red] [colour-4 bright bold:blue] z",
  );
  assert.equal(shown(`${ESC}[42mgo${ESC}[49m ${ESC}[7mturned${ESC}[27m`), "[colour-2 on:go] [on:turned]");
  assert.equal(
    shown(`${ESC}[38;5;9ma${ESC}[39mb${ESC}[38;2;1;2;3mc${ESC}[38;5;200md`),
    "[colour-1 bright:a]bcd",
  );
});

test("cursors do not move and screens are not cleared", () => {
  assert.equal(shown(`one${ESC}[2K${ESC}[1A${ESC}[?25l two`), "one two");
});

test("titles, links and other orders are text", () => {
  assert.equal(shown(`${ESC}]0;owned\u0007`), "[sign:^[]]0;owned[sign:^G]");
  assert.equal(shown("a\tb\u0000"), "a\tb[sign:^@]");
});

test("characters that reorder or hide text are visible", () => {
  assert.equal(shown("\u202egnp.exe\u200b\u009b"), "[sign:<U+202E>]gnp.exe[sign:<U+200B>][sign:<U+009B>]");
});

test("marks are found across colours, in any case", () => {
  const parts = marked(partsOf(`xx fo${ESC}[31mO bar foo`), "FOO");
  assert.deepEqual(
    parts.map(({ text, kind, marked: mark }) => [text, kind, mark]),
    [
      ["xx ", "", false],
      ["fo", "", true],
      ["O", "colour-1", true],
      [" bar ", "colour-1", false],
      ["foo", "colour-1", true],
    ],
  );
  assert.deepEqual(marked(partsOf("abc"), "x"), [{ text: "abc", kind: "" }]);
});
