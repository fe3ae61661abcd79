// The accounts of the server: added, changed and removed by those who manage it.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Account, ActorRole } from "../../api/types.ts";
import { age } from "../../parts/amounts.ts";
import type { Form, Values } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { commandLine, option } from "../../parts/shell.ts";
import { now } from "../../state/clock.ts";
import { may } from "../../state/session.ts";

const ROLES = ["member", "viewer", "admin"];

export function Users(): JSX.Element {
  return (
    <List
      title="Users"
      operation="GET /users"
      rows={(found) => found}
      columns={[
        ["Name", ({ name }) => <a href={`/?user=${encodeURIComponent(name)}`}>{name}</a>],
        ["Role", ({ role, service }) => (service ? `${role}, of a program` : role)],
        ["Organisation", ({ organisation }) => organisation, "wide"],
        ["Runs as", ({ system_user }) => system_user, "wide"],
        ["Login", ({ has_password, identity }) => identity ?? (has_password && "password"), "wide"],
        ["State", ({ disabled }) => disabled && <span class="failed">disabled</span>],
        ["Age", ({ created_at }) => age(created_at, now.value), "right"],
      ]}
      command={commandLine("users", "ls")}
      empty="There is no account: only the owner of this server uses it."
      forms={may("manage") ? [change(null)] : undefined}
      formsOf={may("manage") ? (account) => [change(account), able(account), remove(account)] : undefined}
    />
  );
}

function change(account: Account | null): Form {
  const name = account?.name;
  const role = account?.role ?? "member";
  return {
    verb: name ? "Change" : "Add a user",
    title: name ? `Change ${name}` : "Add a user",
    fields: [
      ...(name ? [] : ([["name", "Name"]] as [string, string][])),
      ["role", "Role", [role, ...ROLES.filter((each) => each !== role)]],
      ["organisation", "Organisation", account?.organisation ?? "default"],
      ["password", "New password", "", "password"],
    ],
    command: (values) => {
      const words = ["--role", values.role ?? role, ...option("--organisation", values.organisation)];
      return commandLine(
        "users",
        name ? "set" : "add",
        name ?? values.name,
        ...words,
        values.password ? "--password" : null,
      );
    },
    send: (values) => store(name ?? values.name ?? "", account, values),
  };
}

function able(account: Account): Form {
  const { name, disabled } = account;
  const verb = disabled ? "Enable" : "Disable";
  return {
    verb,
    title: `${verb} ${name}`,
    text: disabled
      ? "The account may log in again."
      : "The account loses its tokens; its requests are refused.",
    destroys: !disabled,
    command: () => commandLine("users", "set", name, `--${verb.toLowerCase()}`),
    send: () => store(name, { ...account, disabled: !disabled }, {}),
  };
}

function remove({ name }: Account): Form {
  return {
    verb: "Remove",
    title: `Remove ${name}`,
    text: "The account and its tokens are removed. Its runs stay under its name.",
    destroys: true,
    command: () => commandLine("users", "rm", name),
    send: () => ask("DELETE /users/{user}", { path: { user: name } }),
  };
}

/** Store an account, with these values in place of its own. */
function store(name: string, account: Account | null, values: Values): Promise<unknown> {
  const { service = false, identity = null, disabled = false, system_user = null } = account ?? {};
  const role = (values.role ?? account?.role ?? "member") as ActorRole;
  const organisation = values.organisation ?? account?.organisation ?? "default";
  const settings = { service, identity, disabled, system_user, role, organisation };
  const body = { account: settings, ...(values.password ? { password: values.password } : {}) };
  return ask("PUT /users/{user}", { path: { user: name }, body });
}
