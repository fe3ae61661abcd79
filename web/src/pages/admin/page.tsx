// Administration, `/admin`: tokens, users, organisations and limits; the audit log and the announcement for those who manage.

import type { ComponentType, JSX } from "preact";
import type { PageProps } from "../../app/routes.tsx";
import { time } from "../../parts/amounts.ts";
import { List, Sheet, Tabs } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { may } from "../../state/session.ts";
import { Limits } from "./limits.tsx";
import { Announcements, Organisations } from "./server.tsx";
import { Tokens } from "./tokens.tsx";
import { Users } from "./users.tsx";

const SHOWN: Record<string, ComponentType> = {
  users: Users,
  organisations: Organisations,
  limits: Limits,
  audit: Audit,
  announcement: Announcements,
};

const MANAGED = { audit: "Audit log", announcement: "Announcement" };

export function AdminPage({ rest }: PageProps): JSX.Element {
  const tabs = {
    "": "Tokens",
    users: "Users",
    organisations: "Organisations",
    limits: "Limits",
    ...(may("manage") ? MANAGED : {}),
  };
  const Shown = SHOWN[rest] ?? Tokens;
  return (
    <Sheet title="Administration" bar={<Tabs of="/admin" tabs={tabs} chosen={rest} />}>
      <Shown key={rest} />
    </Sheet>
  );
}

function Audit(): JSX.Element {
  return (
    <List
      title="Changes and refusals"
      operation="GET /audit"
      query={{ limit: 500 }}
      rows={(found) => found}
      columns={[
        ["Time", ({ at }) => time(at)],
        ["User", ({ user }) => user],
        ["From", ({ origin }) => origin, "wide"],
        ["Action", ({ action, target }) => <code>{`${action} ${target}`}</code>],
        ["Token", ({ token }) => token && <code>{token}</code>, "wide"],
        ["Answer", ({ status }) => <span class={status >= 400 ? "failed" : ""}>{status}</span>, "right"],
      ]}
      command={commandLine("audit", "--limit", "500")}
      empty="Nothing was changed or refused."
    />
  );
}
