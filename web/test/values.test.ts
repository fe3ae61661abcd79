// Values of trials as places on axes, rows in an order, and commands as a person types them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axisOf } from "../src/pages/experiment/axes.ts";
import { sorted } from "../src/parts/rows.ts";
import { commandLine } from "../src/parts/shell.ts";
import { differing, flat, short } from "../src/parts/text.ts";

test("nested values have paths as names, and lists of plain ones are values", () => {
  assert.deepEqual(flat({ lr: 1, optimizer: { beta: 2, sizes: [3, 4] }, roles: [{ slots: 2 }], none: {} }), {
    lr: 1,
    "optimizer.beta": 2,
    "optimizer.sizes": [3, 4],
    "roles[0].slots": 2,
    none: {},
  });
});

test("only parameters that differ are columns", () => {
  assert.deepEqual(
    differing([
      { lr: 1, seed: 3 },
      { lr: 2, seed: 3, beta: 1 },
    ]),
    ["lr", "beta"],
  );
  assert.deepEqual(differing([]), []);
});

test("an axis of numbers has round marks", () => {
  const axis = axisOf("dropout", [0.05, 0.5, null], false);
  assert.deepEqual(
    axis.ticks.map(({ text }) => text),
    ["0.2", "0.4"],
  );
  assert.equal(axis.place(0.05), 0);
  assert.equal(axis.place(0.5), 1);
  assert.equal(axis.place(null), null);
});

test("an axis of logarithms has powers of ten", () => {
  const axis = axisOf("lr", [0.0001, 0.01], true);
  assert.deepEqual(
    axis.ticks.map(({ text }) => text),
    ["0.0001", "0.001", "0.01"],
  );
  assert.equal(axis.place(0.001), 0.5);
});

test("an axis of texts spreads them, also where some are numbers", () => {
  const axis = axisOf("activation", ["relu", "gelu", 3], false);
  assert.deepEqual(
    axis.ticks.map(({ text }) => text),
    ["3", "gelu", "relu"],
  );
  assert.equal(axis.place("gelu"), 0.5);
});

test("one value, or none, is an axis as well", () => {
  assert.equal(axisOf("lr", [3, 3], false).place(3), 0.5);
  assert.equal(axisOf("lr", [3], true).place(3), 0.5);
  assert.deepEqual(axisOf("lr", [], false).ticks, []);
});

test("numbers have five digits, and whole ones all", () => {
  const values = [0.123456, 1e-9, 12345678, "nan", null, undefined, [1, "a"], true];
  const texts = ["0.12346", "1e-9", "12345678", "nan", "", "", '[1,"a"]', "true"];
  assert.deepEqual(values.map(short), texts);
});

test("rows without a value are last in both directions", () => {
  const rows = [{ loss: 2 }, { loss: null }, { loss: 10 }];
  const order = (sort: string) => {
    const found = sorted(rows, sort, ({ loss }) => loss);
    return rows.map((_, index) => found.at(index)?.loss);
  };
  assert.deepEqual(order("loss"), [2, 10, null]);
  assert.deepEqual(order("-loss"), [10, 2, null]);
});

test("words of a command are quoted where a shell needs it", () => {
  const line = commandLine("set", "it's", { role: "", slot_hours: 0, top: true }, null, "a b");
  assert.equal(line, "tarmac set 'it'\\''s' --slot-hours 0 --top 'a b'");
});
