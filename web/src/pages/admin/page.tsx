// Administration, `/admin`: tokens, users, organisations and limits; the audit log and the announcement for those who manage.

import type { FunctionComponent } from "preact";
import { ask } from "../../api/request.ts";
import type * as api from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { type Field, type Form, OPTIONAL, type Values } from "../../parts/form.tsx";
import { type Cell, List, Sheet, Tabs } from "../../parts/list.tsx";
import { Age, Command } from "../../parts/shown.tsx";
import { duration, time } from "../../parts/text.ts";
import { may, page } from "../../state/session.ts";
import { Pools } from "./pools.tsx";

const DAY_S = 86_400;
const ALLOWED: Record<string, api.Action[] | null> = {
  everything: null,
  "reading alone": ["read"],
  "reading and submitting": ["read", "submit"],
};
type Scope = Pick<api.Limit, "user" | "project" | "pool">;
const SCOPES = ["user", "project", "pool"] as const;
const KINDS = {
  slots: "Slots",
  queued: "Waiting runs",
  slot_hours: "Slot-hours a month",
  largest: "Slots of a run",
};
const NAMES = Object.keys(KINDS) as (keyof typeof KINDS)[];

const SHARED: Record<api.Visibility, string> = {
  control: "see and change the runs of all members",
  view: "see the runs of all members, change their own",
  own: "see and change their own runs",
};

export function AdminPage({ rest }: PageProps) {
  const parts = may("manage") ? { ...PARTS, ...MANAGED } : PARTS;
  const [, Shown] = parts[rest] ?? ["", Tokens];
  return (
    <Sheet title="Administration" bar={<Tabs of="/admin" tabs={parts} chosen={rest} />}>
      <Shown key={rest} />
    </Sheet>
  );
}

function Tokens() {
  const all = may("manage");
  return (
    <List
      title="Tokens"
      operation="GET /tokens"
      query={{ all }}
      rows={(found) => found.filter(({ revoked_at }) => revoked_at === null).reverse()}
      columns={[
        ["For", ({ label, session }) => label || (session ? "session of a browser" : "")],
        ["User", ({ user }) => user],
        ["Scopes", ({ scopes }) => scopes?.join(", ") ?? "all", "wide"],
        ["Created", ({ created_at }) => time(created_at), "wide"],
        ["Expires", ({ expires_at }) => time(expires_at) || "never"],
        ["Used", ({ last_used_at: at }) => (at ? <Age at={at} word=" ago" /> : "never"), "right"],
      ]}
      command={["tokens", "ls", all && "--all"]}
      forms={[NEW_TOKEN]}
      formsOf={({ id, label, user }) => [
        {
          verb: "Revoke",
          title: `Revoke ${label || id} of ${user}`,
          text: "The server refuses this token from now on.",
          destroys: true,
          command: () => ["tokens", "revoke", id],
          send: () => ask("DELETE /tokens/{token}", { path: { token: id } }),
        },
      ]}
    />
  );
}

const NEW_TOKEN: Form = {
  verb: "New token",
  fields: [
    ["label", "What it is for"],
    ["days", "Days", "90"],
    ["scopes", "It allows", "everything", Object.keys(ALLOWED)],
  ],
  command: ({ label, days, scopes = "" }) => {
    const options = (ALLOWED[scopes] ?? []).flatMap((each) => ["--scope", each]);
    return ["tokens", "add", label, { for: days && `${days}d` }, ...options];
  },
  send: async ({ label = "", days, scopes = "" }) => {
    const body = { label, lifetime_s: Number(days) * DAY_S, scopes: ALLOWED[scopes] ?? null };
    const { text } = await ask("POST /tokens", { body });
    return (
      <>
        <p>The text of the token is shown only now. Copy it.</p>
        <Command of={text} />
      </>
    );
  },
};

const Organisations = () => (
  <List
    title="Organisations"
    operation="GET /organisations"
    columns={[
      ["Name", ({ name }) => name],
      ["Members may", ({ visibility }) => SHARED[visibility]],
    ]}
    command={["organisations", "ls"]}
    action="manage"
    formsOf={({ name, visibility }) => [
      {
        verb: "Change",
        title: `Runs of ${name}`,
        fields: [["runs", "Members", visibility, Object.entries(SHARED)]],
        command: ({ runs }) => ["organisations", "set", name, { runs }],
        send: ({ runs }) => {
          const body = { visibility: runs as api.Visibility };
          return ask("PUT /organisations/{organisation}", { path: { organisation: name }, body });
        },
      },
    ]}
  />
);

const Audit = () => (
  <List
    title="Changes and refusals"
    operation="GET /audit"
    query={{ limit: 500 }}
    columns={[
      ["Time", ({ at }) => time(at)],
      ["User", ({ user }) => user],
      ["From", ({ origin }) => origin, "wide"],
      ["Action", ({ action, target }) => <code>{`${action} ${target}`}</code>],
      ["Token", ({ token }) => token && <code>{token}</code>, "wide"],
      ["Answer", ({ status }) => <span class={status >= 400 ? "failed" : ""}>{status}</span>, "right"],
    ]}
    command={["audit", { limit: 500 }]}
    empty="Nothing was changed or refused."
  />
);

const Announcements = () => (
  <List
    title="Announcement"
    operation="GET /page"
    rows={({ announcement }) => (announcement ? [announcement] : [])}
    columns={[
      ["Text", ({ text }) => text],
      ["By", ({ user }) => user],
      ["Until", ({ until_at }) => time(until_at) || "it is cleared", "right"],
    ]}
    command={["server", "status"]}
    empty="There is none. The pages and commands of all users show it."
    forms={[ANNOUNCE]}
    formsOf={() => [CLEAR]}
  />
);

async function announce(text: string, until_at: number | null): Promise<void> {
  await ask("PUT /announcement", { body: { text, until_at } });
  page.value = await ask("GET /page");
}

const ANNOUNCE: Form = {
  verb: "Announce",
  title: "Announce a text to all users",
  fields: [
    ["text", "Text"],
    ["hours", "Hours", "", OPTIONAL],
  ],
  command: ({ text, hours }) => ["server", "say", text, { for: hours && `${hours}h` }],
  send: ({ text = "", hours }) => announce(text, hours ? Date.now() / 1000 + Number(hours) * 3600 : null),
};

const CLEAR: Form = {
  verb: "Clear",
  title: "Show the announcement no longer",
  command: () => ["server", "say", "--clear"],
  send: () => announce("", null),
};

const Users = () => (
  <List
    title="Users"
    operation="GET /users"
    columns={[
      ["Name", ({ name }) => <a href={`/?user=${encodeURIComponent(name)}`}>{name}</a>],
      ["Role", ({ role, service }) => (service ? `${role}, of a program` : role)],
      ["Organisation", ({ organisation }) => organisation, "wide"],
      ["Runs as", ({ system_user }) => system_user, "wide"],
      ["Login", ({ has_password, identity }) => identity ?? (has_password && "password"), "wide"],
      ["State", ({ disabled }) => disabled && <span class="failed">disabled</span>],
      ["Age", ({ created_at }) => <Age at={created_at} />, "right"],
    ]}
    command={["users", "ls"]}
    empty="There is no account: only the owner of this server uses it."
    action="manage"
    forms={[changeUser(null)]}
    formsOf={(account) => [changeUser(account), ableUser(account), removeUser(account)]}
  />
);

function changeUser(account: api.Account | null): Form {
  const known = account?.name;
  const name: Field[] = known ? [] : [["name", "Name"]];
  return {
    verb: known ? "Change" : "Add a user",
    title: known ? `Change ${known}` : "Add a user",
    fields: [
      ...name,
      ["role", "Role", account?.role ?? "member", ["member", "viewer", "admin"]],
      ["organisation", "Organisation", account?.organisation ?? "default"],
      ["password", "New password", "", { type: "password", required: false }],
    ],
    command: ({ name, role, organisation, password }) => {
      const asks = password ? "--password" : null;
      return ["users", known ? "set" : "add", known ?? name, { role, organisation }, asks];
    },
    send: ({ name = "", ...values }) => store(known ?? name, account, values),
  };
}

function ableUser(account: api.Account): Form {
  const { name, disabled } = account;
  const verb = disabled ? "Enable" : "Disable";
  return {
    verb,
    title: `${verb} ${name}`,
    text: disabled
      ? "The account may log in again."
      : "The account loses its tokens; its requests are refused.",
    destroys: !disabled,
    command: () => ["users", "set", name, `--${verb.toLowerCase()}`],
    send: () => store(name, { ...account, disabled: !disabled }, {}),
  };
}

const removeUser = ({ name }: api.Account): Form => ({
  verb: "Remove",
  title: `Remove ${name}`,
  text: "The account and its tokens are removed. Its runs stay under its name.",
  destroys: true,
  command: () => ["users", "rm", name],
  send: () => ask("DELETE /users/{user}", { path: { user: name } }),
});

/** Store an account, with these values in place of its own. */
function store(name: string, account: api.Account | null, values: Values): Promise<unknown> {
  const { password, ...others } = values;
  const settings = { ...account, ...others } as api.AccountSettings; // the server has the usual values
  const body = { account: settings, ...(password ? { password } : {}) };
  return ask("PUT /users/{user}", { path: { user: name }, body });
}

const Limits = () => (
  <List
    title="Limits"
    operation="GET /limits"
    columns={[
      ["Of", (of) => SCOPES.flatMap((name) => (of[name] ? `${name} ${of[name]}` : [])).join(" in ")],
      ...NAMES.map((name): Cell<api.Limit> => [KINDS[name], (limit) => limit[name], "right"]),
      ["Time limit", ({ longest_s }) => duration(longest_s), "right"],
    ]}
    command={["limits", "ls"]}
    action="manage"
    forms={[setLimits()]}
    formsOf={(limit) => [setLimits(limit), removeLimits(limit)]}
  />
);

function setLimits(limit?: api.Limit): Form {
  const scopes = limit ? [] : SCOPES.map((name): Field => [name, `Of ${name}`, "", OPTIONAL]);
  const limits = NAMES.map((name): Field => [name, KINDS[name], String(limit?.[name] ?? ""), OPTIONAL]);
  return {
    verb: limit ? "Change" : "Set limits",
    title: "Set limits",
    text: "Empty fields stay as they are. * is each user, project or pool without a limit of its own.",
    fields: [...scopes, ...limits],
    command: ({ user, project, pool, ...limits }) => [
      "limits",
      "set",
      scopeOf(limit ?? { user, project, pool }),
      limits,
    ],
    send: (values) => {
      const given = NAMES.filter((name) => values[name]).map((name) => [name, Number(values[name])]);
      return ask("PUT /limits", { body: { ...scopeOf(limit ?? values), ...Object.fromEntries(given) } });
    },
  };
}

function removeLimits({ user, project, pool, ...limits }: api.Limit): Form {
  const scope = { user, project, pool };
  const kinds = Object.entries(limits).filter(([, value]) => value !== null);
  const unset = kinds.map(([name]) => name as api.LimitKind);
  return {
    verb: "Remove",
    title: "Remove these limits",
    text: unset.join(", "),
    destroys: true,
    command: () => ["limits", "unset", scope],
    send: () => ask("PUT /limits", { body: { ...scope, unset } }),
  };
}

function scopeOf({ user, project, pool }: { [name in keyof Scope]?: string | null | undefined }): Scope {
  return { user: user || null, project: project || null, pool: pool || null };
}

type Parts = Record<string, [title: string, Shown: FunctionComponent]>;
const PARTS: Parts = {
  "": ["Tokens", Tokens],
  users: ["Users", Users],
  organisations: ["Organisations", Organisations],
  limits: ["Limits", Limits],
  pools: ["Pools", Pools],
};
const MANAGED: Parts = { audit: ["Audit log", Audit], announcement: ["Announcement", Announcements] };
