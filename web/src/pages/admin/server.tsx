// Organisations, and the text that all users see.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Organisation, Visibility } from "../../api/types.ts";
import { time } from "../../parts/amounts.ts";
import type { Form } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { commandLine, option } from "../../parts/shell.ts";
import { may, page } from "../../state/session.ts";

const SHARED: Record<Visibility, string> = {
  control: "see and change the runs of all members",
  view: "see the runs of all members, change their own",
  own: "see and change their own runs",
};

export function Organisations(): JSX.Element {
  return (
    <List
      title="Organisations"
      operation="GET /organisations"
      rows={(found) => found}
      columns={[
        ["Name", ({ name }) => name],
        ["Members may", ({ visibility }) => SHARED[visibility]],
      ]}
      command={commandLine("organisations", "ls")}
      empty="There is no organisation."
      formsOf={may("manage") ? (organisation) => [change(organisation)] : undefined}
    />
  );
}

function change({ name, visibility }: Organisation): Form {
  const choices = [visibility, ...Object.keys(SHARED).filter((each) => each !== visibility)];
  return {
    verb: "Change",
    title: `Runs of ${name}`,
    text: Object.entries(SHARED)
      .map(([choice, text]) => `${choice}: ${text}`)
      .join("; "),
    fields: [["runs", "Members", choices]],
    command: ({ runs }) => commandLine("organisations", "set", name, "--runs", runs),
    send: ({ runs }) => {
      const body = { visibility: runs as Visibility };
      return ask("PUT /organisations/{organisation}", { path: { organisation: name }, body });
    },
  };
}

export function Announcements(): JSX.Element {
  return (
    <List
      title="Announcement"
      operation="GET /page"
      rows={({ announcement }) => (announcement ? [announcement] : [])}
      columns={[
        ["Text", ({ text }) => text],
        ["By", ({ user }) => user],
        ["Until", ({ until_at }) => time(until_at) || "it is cleared", "right"],
      ]}
      command={commandLine("server", "status")}
      empty="There is none. The pages and commands of all users show it."
      forms={[SAY]}
      formsOf={() => [CLEAR]}
    />
  );
}

async function announce(text: string, until_at: number | null): Promise<void> {
  await ask("PUT /announcement", { body: { text, until_at } });
  page.value = await ask("GET /page");
}

const SAY: Form = {
  verb: "Announce",
  title: "Announce a text to all users",
  fields: [
    ["text", "Text"],
    ["hours", "Hours", "", "optional"],
  ],
  command: ({ text, hours }) => commandLine("server", "say", text, ...option("--for", hours && `${hours}h`)),
  send: ({ text = "", hours }) => announce(text, hours ? Date.now() / 1000 + Number(hours) * 3600 : null),
};

const CLEAR: Form = {
  verb: "Clear",
  title: "Show the announcement no longer",
  command: () => commandLine("server", "say", "--clear"),
  send: () => announce("", null),
};
