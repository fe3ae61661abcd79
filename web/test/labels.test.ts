// Labels as a person types them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LABEL_INPUT, labelChange } from "../src/parts/shell.ts";

test("a change sets a label, or removes one", () => {
  assert.deepEqual(labelChange("team=vision"), { team: "vision" });
  assert.deepEqual(labelChange("url=a=b-"), { url: "a=b-" });
  assert.deepEqual(labelChange("empty="), { empty: "" });
  assert.deepEqual(labelChange("a-b-"), { "a-b": null });
});

test("what is no change is refused by the input", () => {
  const pattern = new RegExp(`^(?:${LABEL_INPUT.pattern})$`);
  assert.deepEqual(
    ["team=vision", "team-", "team", "=x"].map((text) => pattern.test(text)),
    [true, true, false, false],
  );
});
