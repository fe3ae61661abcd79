// What differs between two runs, as `tarmac diff` says it: values of the specs by their path.

type Spec = Record<string, unknown>;

/** A path, and its values before and after. */
export type Difference = [path: string, before: string, after: string];

/** Parts of a spec that say nothing here: the text itself, and what the submitter's shell or server adds. */
const UNSHOWN = /^(source|name|code\.digest|environment\.inherited.*)$/;

export function differences(before: Spec, after: Spec): Difference[] {
  const [one, two] = [flat(before, ""), flat(after, "")];
  return [...new Set([...Object.keys(one), ...Object.keys(two)])]
    .filter((path) => one[path] !== two[path] && !UNSHOWN.test(path))
    .sort()
    .map((path) => [path, one[path] ?? "", two[path] ?? ""]);
}

/** Every value in a tree by its path; nothing, no, "" and empty lists are as if they were not there. */
function flat(value: unknown, path: string): Record<string, string> {
  if (value === null || value === undefined || value === "" || value === false) return {};
  if (Array.isArray(value) && typeof value[0] !== "object")
    return value.length > 0 ? { [path]: JSON.stringify(value) } : {};
  if (typeof value !== "object") return { [path]: String(value) };
  const name = (key: string) => (Array.isArray(value) ? `${path}[${key}]` : path ? `${path}.${key}` : key);
  return Object.assign({}, ...Object.entries(value).map(([key, item]) => flat(item, name(key))));
}
