// A new run as it is sent to the server, and as a command: from the text of its file and the fields of the form.

import type { DryRun, Run, SubmissionBody } from "../../api/types.ts";
import { commandLine } from "../../parts/shell.ts";
import { differences } from "../run/differences.ts";

export const TEMPLATE = "name: hello\ncommand: echo hello\n";

/** The id of a field: an override (`slots`), a variable (`env.LR`) or a parameter (`parameters.model.layers`). */
export type Values = Record<string, string>;

interface Spec {
  name?: string;
  priority?: number;
  roles?: { slots?: number | null }[];
  target?: { pool?: string | null };
  environment?: { variables?: Values };
  labels?: Values;
  parameters?: unknown;
}

/** What the form shows of a spec. */
export function valuesOf(spec: Spec): Values {
  const role = spec.roles?.length === 1 ? spec.roles[0] : undefined;
  const under = (group: string, values: Values = {}) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [`${group}.${name}`, value]));
  return {
    name: spec.name ?? "",
    slots: role ? String(role.slots ?? 0) : "",
    priority: String(spec.priority ?? 0),
    pool: spec.target?.pool ?? "",
    ...leaves(spec.parameters, "parameters"),
    ...under("label", spec.labels),
    ...under("env", spec.environment?.variables),
  };
}

/** Values by their path; lists are one value, and keys that a path cannot name are left out. */
function leaves(value: unknown, path: string): Values {
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) return { [path]: JSON.stringify(value) };
  const inner = Object.entries(value).filter(([key]) => /^[^.=\s]+$/.test(key));
  return Object.assign({}, ...inner.map(([key, each]) => leaves(each, `${path}.${key}`)));
}

/** The values of a run that are not those of its file: they came from its command line. */
export function given(run: Run, file: DryRun): Values {
  const ofFile = valuesOf(file.run);
  const differ = Object.entries(valuesOf(run.spec)).filter(([id, value]) => value && value !== ofFile[id]);
  return Object.fromEntries(differ.filter(([id]) => id !== "priority" || run.dialect === "native"));
}

const IN_FORM =
  /^(priority|roles\[0\]\.slots|target\.pool|(labels|parameters|code|search|trial|environment\.variables)\b.*)$/;

/** What else of a run is not in its file, so that its edited file describes another one: as path=value. */
export function lost(run: Run, file: DryRun): string[] {
  return differences(file.run, run.spec)
    .filter(([path]) => !IN_FORM.test(path))
    .map(([path, , value]) => `${path}=${value || "none"}`);
}

export interface Draft {
  run: Run | null;
  text: string;
  /** Whether the text is sent: it differs from that of `run`, or from what it was for it. */
  edited: boolean;
  values: Values;
  /** "last": the last checkpoint of `run`; or the id of a version; "" for none. */
  from: string;
}

/** The fields that have a value: their group, or "", and their name. */
function fieldsOf(values: Values): [group: string, name: string, value: string][] {
  return Object.entries(values)
    .filter(([, value]) => value !== "")
    .map(([id, value]) => {
      const [, group = "", name = id] = /^(env|label|parameters)\.(.*)$/.exec(id) ?? [];
      return [group, group === "parameters" ? id : name, value];
    });
}

export function bodyOf({ run, text, edited, values, from }: Draft): SubmissionBody {
  const fields = fieldsOf(values);
  const of = (group: string) =>
    Object.fromEntries(fields.filter(([each]) => each === group).map(([, name, value]) => [name, value]));
  const { slots, ...plain } = of("");
  const start = from && from !== "last" ? { input_artifacts: JSON.stringify([from]) } : {};
  return {
    overrides: {
      ...(slots && { slots: /^\d+$/.test(slots) ? Number(slots) : slots }),
      ...plain,
      env: of("env"),
      labels: of("label"),
    },
    extras: { changes: { ...of("parameters"), ...start } },
    ...(run && { clone: run.id, dialect: run.dialect, resume: from === "last" }),
    ...((edited || !run) && { source: text }),
  };
}

const OPTIONS: Record<string, string> = { env: "--env", label: "--label", parameters: "--set" };

/** The command that submits the same. An edited text is the file `run.yaml` of its reader. */
export function commandOf({ run, edited, values, from }: Draft): string {
  const words = fieldsOf(values).flatMap(([group, name, value]) =>
    group ? [OPTIONS[group], `${name}=${value}`] : [`--${name}`, value],
  );
  if (from === "last" && !edited) words.push("--resume");
  else if (from) words.push("--set", `input_artifacts=["${from === "last" ? run?.id : from}"]`);
  return commandLine("run", ...(run && !edited ? ["--clone", run.id] : ["run.yaml"]), ...words);
}
