// What differs between two runs, as `tarmac diff` says it: values of the specs by their path.

import { flat } from "../../parts/text.ts";

/** A path, and its values before and after. */
export type Difference = [path: string, before: string, after: string];

/** Parts of a spec that say nothing here: the text itself, and what the submitter's shell or server adds. */
const UNSHOWN = /^(source|name|code\.digest|environment\.inherited.*)$/;

export function differences(before: object, after: object): Difference[] {
  const [one, two] = [flat(before), flat(after)];
  return Object.keys({ ...one, ...two })
    .sort()
    .map((path): Difference => [path, said(one[path]), said(two[path])])
    .filter(([path, value, other]) => value !== other && !UNSHOWN.test(path));
}

/** A value; nothing, no, "" and empty lists are as if they were not there. */
function said(value: unknown): string {
  if (typeof value !== "object") return String(value || (value === 0 ? 0 : ""));
  return Object.keys(value ?? {}).length > 0 ? JSON.stringify(value) : "";
}
