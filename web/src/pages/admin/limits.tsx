// The limits of users, projects and pools: read by all, changed by those who manage.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Limit, LimitKind } from "../../api/types.ts";
import { duration } from "../../parts/amounts.ts";
import type { Form, Values } from "../../parts/form.tsx";
import { type Cell, List } from "../../parts/list.tsx";
import { commandLine, option } from "../../parts/shell.ts";
import { may } from "../../state/session.ts";

const SCOPES = ["user", "project", "pool"] as const;
const KINDS = {
  slots: "Slots",
  queued: "Waiting runs",
  slot_hours: "Slot-hours a month",
  largest: "Slots of a run",
};
const NAMES = Object.keys(KINDS) as (keyof typeof KINDS)[];

type Scope = Pick<Limit, (typeof SCOPES)[number]>;

export function Limits(): JSX.Element {
  const of = (limit: Limit) => SCOPES.filter((name) => limit[name]).map((name) => `${name} ${limit[name]}`);
  return (
    <List
      title="Limits"
      operation="GET /limits"
      rows={(found) => found}
      columns={[
        ["Of", (limit) => of(limit).join(" in ")],
        ...NAMES.map((name): Cell<Limit> => [KINDS[name], (limit) => limit[name], "right"]),
        ["Time limit", ({ longest_s }) => duration(longest_s), "right"],
      ]}
      command={commandLine("limits", "ls")}
      empty="There are no limits."
      forms={may("manage") ? [set()] : undefined}
      formsOf={may("manage") ? (limit) => [set(limit), unset(limit)] : undefined}
    />
  );
}

function set(limit?: Limit): Form {
  const scope = (values: Values) => scopeOf(limit ?? values);
  return {
    verb: limit ? "Change" : "Set limits",
    title: "Set limits",
    text: "Empty fields stay as they are. * is each user, project or pool without a limit of its own.",
    fields: [
      ...(limit ? [] : SCOPES).map((name): [string, string, string, "optional"] => [
        name,
        `Of ${name}`,
        "",
        "optional",
      ]),
      ...NAMES.map((name): [string, string, string, "optional"] => [
        name,
        KINDS[name],
        String(limit?.[name] ?? ""),
        "optional",
      ]),
    ],
    command: (values) => {
      const limits = NAMES.flatMap((name) => option(`--${name.replace("_", "-")}`, values[name]));
      return commandLine("limits", "set", ...optionsOf(scope(values)), ...limits);
    },
    send: (values) => {
      const limits = NAMES.filter((name) => values[name]).map((name) => [name, Number(values[name])]);
      return ask("PUT /limits", { body: { ...scope(values), ...Object.fromEntries(limits) } });
    },
  };
}

function unset(limit: Limit): Form {
  const { user, project, pool, ...limits } = limit;
  const names = Object.keys(limits) as (keyof typeof limits)[];
  const kinds = names.filter((name) => limits[name] !== null) as LimitKind[];
  return {
    verb: "Remove",
    title: "Remove these limits",
    text: kinds.join(", "),
    destroys: true,
    command: () => commandLine("limits", "unset", ...optionsOf(limit)),
    send: () => ask("PUT /limits", { body: { user, project, pool, unset: kinds } }),
  };
}

function scopeOf({ user, project, pool }: Partial<Scope>): Scope {
  return { user: user || null, project: project || null, pool: pool || null };
}

function optionsOf(scope: Scope): (string | false)[] {
  return SCOPES.flatMap((name) => option(`--${name}`, scope[name]));
}
