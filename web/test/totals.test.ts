// Sums of used slot-time, and their CSV.

import assert from "node:assert/strict";
import { test } from "node:test";
import { csvOf, totals } from "../src/pages/usage/totals.ts";

const part = { project: "p", cluster: "lab", pool: "big", attempts: 1, begin_at: null };

test("the largest sum is first, and pools have their cluster's name", () => {
  const parts = [
    { ...part, user: "ada", runs: 1, slot_s: 10 },
    { ...part, user: "bob", runs: 2, slot_s: 30 },
    { ...part, user: "ada", runs: 1, slot_s: 5 },
  ];
  assert.deepEqual(totals(parts, "user"), [
    { name: "bob", slot_s: 30, runs: 2 },
    { name: "ada", slot_s: 15, runs: 2 },
  ]);
  assert.deepEqual(totals(parts, "pool"), [{ name: "lab/big", slot_s: 45, runs: 4 }]);
});

test("the newest day and month is first", () => {
  const parts = [0, 1, 40].map((day) => ({
    ...part,
    user: "ada",
    runs: 1,
    slot_s: day,
    begin_at: day * 86_400,
  }));
  const names = (by: "day" | "month") => totals(parts, by).map(({ name }) => name);
  assert.deepEqual(names("day"), ["1970-02-10", "1970-01-02", "1970-01-01"]);
  assert.deepEqual(names("month"), ["1970-02", "1970-01"]);
});

test("a name is text in CSV, whatever is in it", () => {
  const rows = ['a"b', "=1+1"].map((name) => ({ name, slot_s: 1800, runs: 1 }));
  assert.equal(csvOf(rows, "user"), 'user,slot_hours,runs\n"a""b",0.5,1\n"\'=1+1",0.5,1\n');
});
