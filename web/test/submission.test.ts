// A new run: the request and the command say the same, and what came from a command line is known.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { DryRun, Run } from "../src/api/types.ts";
import { bodyOf, commandOf, type Draft, given, lost, valuesOf } from "../src/pages/new/submission.ts";
import { differences } from "../src/pages/run/differences.ts";

const spec = {
  name: "digits",
  roles: [{ slots: 2 }],
  environment: { variables: { LR: "0.1" }, inherited: { PATH: "/bin" } },
  labels: { team: "vision" },
  parameters: { lr: 0.1, model: { layers: 3, width: [64, 64], "a.b": 1 } },
  retries: 2,
};
const run = { id: "r1", dialect: "native", spec } as unknown as Run;
const draft: Draft = { run, text: "command: x", edited: false, values: {}, from: "" };

test("the form shows fields, variables, labels and parameters", () => {
  assert.deepEqual(valuesOf(spec), {
    name: "digits",
    slots: "2",
    priority: "0",
    pool: "",
    "env.LR": "0.1",
    "label.team": "vision",
    "parameters.lr": "0.1",
    "parameters.model.layers": "3",
    "parameters.model.width": "[64,64]",
  });
});

test("values of the command line are those that the file lacks", () => {
  const file = { run: { ...spec, roles: [{ slots: 1 }], labels: {}, retries: 0 } } as unknown as DryRun;
  assert.deepEqual(given(run, file), { slots: "2", "label.team": "vision" });
  assert.deepEqual(lost(run, file), ["retries=2"]);
});

test("a clone has no text, and an edited one keeps its parent", () => {
  const values = { slots: "4", priority: "high", pool: "", "env.LR": "a b", "parameters.lr": "0.2" };
  const overrides = { slots: 4, priority: "high", env: { LR: "a b" }, labels: {} };
  const extras = { changes: { "parameters.lr": "0.2" } };
  assert.deepEqual(bodyOf({ ...draft, values }), {
    overrides,
    extras,
    clone: "r1",
    dialect: "native",
    resume: false,
  });
  const edited = { overrides, extras, clone: "r1", dialect: "native", resume: false, source: "command: x" };
  assert.deepEqual(bodyOf({ ...draft, values, edited: true }), edited);
  const options = "--slots 4 --priority high --env 'LR=a b' --set parameters.lr=0.2";
  assert.equal(commandOf({ ...draft, values }), `tarmac run --clone r1 ${options}`);
  assert.equal(commandOf({ ...draft, values, edited: true }), `tarmac run run.yaml ${options}`);
});

test("a run begins with the last checkpoint, or with a version", () => {
  assert.equal(bodyOf({ ...draft, from: "last" }).resume, true);
  assert.equal(commandOf({ ...draft, from: "last" }), "tarmac run --clone r1 --resume");
  const from = "r1.checkpoint.2";
  assert.deepEqual(bodyOf({ ...draft, from }).extras?.changes, { input_artifacts: '["r1.checkpoint.2"]' });
  assert.match(commandOf({ ...draft, from }), /--set 'input_artifacts=\["r1.checkpoint.2"\]'$/);
});

test("a quote in a value stays one word of the command", () => {
  assert.match(commandOf({ ...draft, values: { name: "it's; rm -rf ~" } }), / --name 'it'\\''s; rm -rf ~'$/);
});

test("specs differ in their values, not in empty ones", () => {
  const before = { a: { b: [{ c: 1 }] }, d: false, name: "x", environment: { inherited: { PATH: "1" } } };
  const after = { a: { b: [{ c: 2 }] }, e: "new", name: "y", environment: { inherited: { PATH: "2" } } };
  assert.deepEqual(differences(before, after), [
    ["a.b[0].c", "1", "2"],
    ["e", "", "new"],
  ]);
});
