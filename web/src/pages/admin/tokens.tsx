// Tokens, of the user or of all users. The text of a new one is shown once.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Action, Token } from "../../api/types.ts";
import { age, time } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import type { Form } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { now } from "../../state/clock.ts";
import { may } from "../../state/session.ts";

const DAY_S = 86_400;
const SCOPES = { everything: null, "reading alone": ["read"], "reading and submitting": ["read", "submit"] };
const scopesOf = (choice = "") => SCOPES[choice as keyof typeof SCOPES] as Action[] | null;

const ADD: Form = {
  verb: "New token",
  title: "New token",
  fields: [
    ["label", "What it is for"],
    ["days", "Days", "90"],
    ["scopes", "It allows", Object.keys(SCOPES)],
  ],
  command: ({ label = "", days, scopes }) => {
    const options = (scopesOf(scopes) ?? []).flatMap((each) => ["--scope", each]);
    return commandLine("tokens", "add", label, "--for", `${days}d`, ...options);
  },
  send: async ({ label = "", days, scopes }) => {
    const body = { label, lifetime_s: Number(days) * DAY_S, scopes: scopesOf(scopes) };
    const { text } = await ask("POST /tokens", { body });
    return (
      <>
        <p>The text of the token is shown only now. Copy it.</p>
        <Command text={text} />
      </>
    );
  },
};

export function Tokens(): JSX.Element {
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
        ["Used", ({ last_used_at: at }) => (at ? `${age(at, now.value)} ago` : "never"), "right"],
      ]}
      command={commandLine("tokens", "ls", all && "--all")}
      empty="There is no token."
      forms={[ADD]}
      formsOf={(token) => [revoke(token)]}
    />
  );
}

function revoke({ id, label, user }: Token): Form {
  return {
    verb: "Revoke",
    title: `Revoke ${label || id} of ${user}`,
    text: "The server refuses this token from now on.",
    destroys: true,
    command: () => commandLine("tokens", "revoke", id),
    send: () => ask("DELETE /tokens/{token}", { path: { token: id } }),
  };
}
