// Usage and credits, `/usage`: slot-hours by user, project, pool, day or month, and what is left of credits. Projects,
// `/projects`: their ids, runs and use; and the members of one, `/projects/ID`.

import type { ComponentChildren, JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { ActorRole, CreditAccount, Membership } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { count } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Command } from "../../parts/command.tsx";
import { type Form, OPTIONAL } from "../../parts/form.tsx";
import { List, Rows, Sheet, Tabs } from "../../parts/list.tsx";
import { Problem } from "../../parts/problem.tsx";
import { commandLine } from "../../parts/shell.ts";
import { Toggle } from "../../parts/toggle.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { query } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { csvOf, type Group, totals } from "./totals.ts";

const ASK_MS = 10_000;
const HOUR_S = 3_600;
const DAYS = [7, 30, 90, 365];
const TABS = { "": "By user", project: "By project", pool: "By pool", day: "By day", month: "By month" };
const WARNED_SHARE = 0.8;

export function UsagePage({ rest }: PageProps): JSX.Element {
  const by = (rest || "user") as Group;
  const days = Number(query.value.get("days") ?? 30);
  const since = Math.floor(now.peek() / HOUR_S - days * 24) * HOUR_S;
  const per = by === "day" || by === "month" ? by : null;
  const { data: used, problem } = useAnswer("GET /usage", { query: { since, per } });
  const rows = totals(used ?? [], by);
  const most = Math.max(...rows.map(({ slot_s }) => slot_s));
  const csv = `data:text/csv;charset=utf-8,${encodeURIComponent(csvOf(rows, by))}`;
  const bar = (
    <>
      <Tabs of="/usage" tabs={TABS} chosen={rest} />
      {DAYS.map((each) => (
        <Toggle key={each} label={`${each} days`} on={each === days} change={{ days: String(each) }} />
      ))}
      <a class="button" href={csv} download={`usage-by-${by}.csv`}>
        CSV
      </a>
    </>
  );
  return (
    <Sheet title="Usage" bar={bar}>
      {!used && <Problem problem={problem} />}
      <Rows
        label="Usage"
        rows={rows}
        columns={[
          [`By ${by}`, ({ name }) => name],
          ["", ({ slot_s }) => share(slot_s / most)],
          ["Slot-hours", ({ slot_s }) => (slot_s / HOUR_S).toFixed(2), "right"],
          ["Runs begun", ({ runs }) => count(runs), "right"],
        ]}
        empty={used ? "Nothing was used in this time." : ""}
      />
      <Command text={commandLine("usage", { by, since: `${days}d` })} />
      <List
        title="Credits"
        operation="GET /credits"
        columns={[
          ["Account", ({ account }) => account],
          ["", (account) => share(usedOf(account))],
          ["Used", usedText, "right"],
          ["Left", ({ balance }) => balance.toFixed(2), "right"],
          ["Of", ({ granted }) => granted.toFixed(2), "right"],
        ]}
        command={commandLine("credits", "ls")}
        empty="No user and no project uses credits."
        forms={may("manage") ? [GRANT] : undefined}
      />
    </Sheet>
  );
}

const share = (of: number) => <Bar long share={of} label={`${Math.round(of * 100)}%`} />;

const usedOf = ({ granted, balance }: CreditAccount) => (granted > 0 ? (granted - balance) / granted : 1);

function usedText(account: CreditAccount): ComponentChildren {
  const used = usedOf(account);
  const text = `${Math.round(used * 100)}%`;
  return used < WARNED_SHARE ? text : <span class="failed">⚠ {text}</span>;
}

const GRANT: Form = {
  verb: "Grant credits",
  title: "Grant credits",
  text: "From the first grant on, the runs of the user or project use credits.",
  fields: [
    ["kind", "To a", "user", ["user", "project"]],
    ["name", "Name"],
    ["credits", "Credits", "", { type: "number", min: 0, step: "any" }],
    ["note", "Note", "", OPTIONAL],
  ],
  command: ({ kind = "", name, credits, note }) =>
    commandLine("credits", "grant", credits, { [kind]: name, note }),
  send: ({ kind, name, credits, note = "" }) => {
    const body = { account: `${kind}:${name}`, credits: Number(credits), note, key: crypto.randomUUID() };
    return ask("POST /credits", { body });
  },
};

export function ProjectsPage({ rest: project }: PageProps): JSX.Element {
  const { data: used } = useAnswer("GET /usage", { everyMs: ASK_MS });
  const hours = new Map(totals(used ?? [], "project").map(({ name, slot_s }) => [name, slot_s / HOUR_S]));
  const link = (href: string, id: string, text: string) => (
    <a href={`${href}${encodeURIComponent(id)}`}>{text}</a>
  );
  return (
    <Sheet title="Projects">
      <p class="quiet">The name of a project is its id: the field project of a run file has it.</p>
      <List
        title="Projects"
        heading={false}
        operation="GET /tables/runs/counts"
        query={{ field: "project" }}
        everyMs={ASK_MS}
        rows={(counts) => Object.entries(counts)}
        columns={[
          ["Id", ([id]) => <code>{id}</code>],
          ["Slot-hours", ([id]) => (hours.get(id) ?? 0).toFixed(2), "right"],
          ["Runs", ([id, runs]) => link("/?project=", id, count(runs)), "right"],
          ["Experiments", ([id]) => link("/experiments?project=", id, "show"), "right"],
          ["Members", ([id]) => link("/projects/", id, "show"), "right"],
        ]}
        command={commandLine("projects")}
        empty="There is no run, so there is no project."
      />
      {project && (
        <List
          key={project}
          title={`Members of ${project}`}
          operation="GET /projects/{project}/members"
          path={{ project }}
          columns={[
            ["User", ({ user }) => user],
            ["Role", ({ role }) => role],
          ]}
          command={commandLine("members", "ls", project)}
          empty="All members of the server may use this project."
          forms={may("account") ? [addMember(project)] : undefined}
          formsOf={may("account") ? (member) => [endMember(member)] : undefined}
        />
      )}
    </Sheet>
  );
}

const addMember = (project: string): Form => ({
  verb: "Set a member",
  title: `A member of ${project}`,
  fields: [
    ["user", "User"],
    ["role", "Role", "member", ["member", "viewer", "admin"]],
  ],
  command: ({ user, role }) => commandLine("members", "set", project, user, { role }),
  send: ({ user = "", role }) =>
    ask("PUT /projects/{project}/members", { path: { project }, body: { user, role: role as ActorRole } }),
});

const endMember = ({ project, user }: Membership): Form => ({
  verb: "End",
  title: `End the membership of ${user}`,
  destroys: true,
  command: () => commandLine("members", "rm", project, user),
  send: () => ask("PUT /projects/{project}/members", { path: { project }, body: { user, role: null } }),
});
