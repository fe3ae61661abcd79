// Amounts are written as the command line writes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { age, bytes, count, duration, until } from "../src/parts/text.ts";

test("a duration has its two largest units", () => {
  const expected: [number, string][] = [
    [0, "0s"],
    [59.9, "59s"],
    [60, "1m"],
    [125, "2m 5s"],
    [3600, "1h"],
    [3605, "1h"],
    [90_061, "1d 1h"],
    [-5, "0s"],
  ];
  for (const [seconds, text] of expected) assert.equal(duration(seconds), text);
  assert.equal(duration(null), "");
  assert.equal(duration(Number.NaN), "");
});

test("an age has its largest unit alone", () => {
  assert.equal(age(100, 100 + 7_260), "2h");
  assert.equal(age(null, 5), "");
});

test("the time until a start is as exact as an estimate", () => {
  const expected: [number, string][] = [
    [0.5, "now"],
    [40, "in 40 s"],
    [720, "in 12 min"],
    [10_000, "in 3 h"],
    [200_000, "in 2 d"],
  ];
  for (const [seconds, text] of expected) assert.equal(until(100 + seconds, 100), text);
});

test("bytes are in the largest unit that leaves one", () => {
  const expected: [number, string][] = [
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.5 KiB"],
    [200 * 1024 ** 2, "200 MiB"],
    [1024 ** 4, "1 TiB"],
  ];
  for (const [number, text] of expected) assert.equal(bytes(number), text);
});

test("thousands are apart", () => {
  assert.equal(count(1234567), "1\u202f234\u202f567");
});
