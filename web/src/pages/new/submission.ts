// A new run as it is sent to the server, and as a command: from the text of its file and the fields of the form.

import type { DryRun, Run, SubmissionBody } from "../../api/types.ts";
import { commandLine } from "../../parts/shell.ts";
import { differences } from "../run/differences.ts";

export const TEMPLATE = "name: hello\ncommand: echo hello\n";

/** The id of a field: an override (`slots`), a variable (`env.LR`) or a parameter (`parameters.model.layers`). */
export type Values = Record<string, string>;

/** The plain fields of the form. */
export const PLAIN = ["name", "slots", "priority", "pool"];

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
  const found: Values = {
    name: spec.name ?? "",
    slots: role ? String(role.slots ?? 0) : "",
    priority: String(spec.priority ?? 0),
    pool: spec.target?.pool ?? "",
  };
  for (const [name, value] of Object.entries(spec.environment?.variables ?? {})) found[`env.${name}`] = value;
  for (const [name, value] of Object.entries(spec.labels ?? {})) found[`label.${name}`] = value;
  return { ...found, ...leaves(spec.parameters, "parameters") };
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
  const ofRun = Object.entries(valuesOf(run.spec));
  return Object.fromEntries(
    ofRun.filter(
      ([id, value]) =>
        value !== "" && value !== ofFile[id] && (id !== "priority" || run.dialect === "native"),
    ),
  );
}

const IN_FORM =
  /^(priority|roles\[0\]\.slots|target\.pool|(labels|parameters|code|environment\.variables)\b.*)$/;

/** What else of a run is not in its file, so that its edited file describes another one: as path=value. */
export function lost(run: Run, file: DryRun): string[] {
  return differences(file.run, run.spec)
    .filter(([path]) => !IN_FORM.test(path))
    .map(([path, , value]) => `${path}=${value || "none"}`);
}

export interface Draft {
  run: Run | null;
  text: string;
  /** Whether the text differs from that of `run`. */
  edited: boolean;
  values: Values;
  /** "last": the last checkpoint of `run`; or the id of a version; "" for none. */
  from: string;
}

export function bodyOf({ run, text, edited, values, from }: Draft): SubmissionBody {
  const overrides: Record<string, unknown> = {};
  const groups: Record<string, Values> = { env: {}, label: {}, parameters: {} };
  for (const [id, value] of Object.entries(values)) {
    const [group = "", ...rest] = id.split(".");
    const into = groups[group];
    if (value === "") continue;
    if (into) into[group === "parameters" ? id : rest.join(".")] = value;
    else overrides[id] = id === "slots" && /^\d+$/.test(value) ? Number(value) : value;
  }
  const start = from && from !== "last" ? { input_artifacts: JSON.stringify([from]) } : {};
  return {
    overrides: { ...overrides, env: groups.env, labels: groups.label },
    extras: { changes: { ...groups.parameters, ...start } },
    ...(run ? { clone: run.id, dialect: run.dialect, resume: from === "last" } : {}),
    ...(edited || !run ? { source: text } : {}),
  };
}

const OPTIONS: Record<string, string> = { env: "--env", label: "--label", parameters: "--set" };

/** The command that submits the same. An edited text is the file `run.yaml` of its reader. */
export function commandOf({ run, edited, values, from }: Draft): string {
  const words = ["run", ...(run && !edited ? ["--clone", run.id] : ["run.yaml"])];
  for (const [id, value] of Object.entries(values)) {
    const [group = "", ...rest] = id.split(".");
    const option = OPTIONS[group];
    const name = group === "parameters" ? id : rest.join(".");
    if (value !== "") words.push(option ?? `--${id}`, option ? `${name}=${value}` : value);
  }
  if (from === "last" && !edited) words.push("--resume");
  else if (from) words.push("--set", `input_artifacts=["${from === "last" ? run?.id : from}"]`);
  return commandLine(...words);
}
