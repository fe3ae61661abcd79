// Usage and credits, `/usage`: slot-hours by user, project, pool, day or month, and what is left of credits. Projects,
// `/projects`: their ids, runs and use; and the members of one, `/projects/ID`.

import { ask } from "../../api/request.ts";
import type { ActorRole, CreditAccount, Membership } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Button, Link } from "../../parts/controls.tsx";
import { type Form, OPTIONAL } from "../../parts/form.tsx";
import { List, Rows, Sheet, Tabs } from "../../parts/list.tsx";
import { Bar, Command, Problem } from "../../parts/shown.tsx";
import { count, percent } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { query } from "../../state/place.ts";
import { now } from "../../state/session.ts";
import { csvOf, type Group, totals } from "./totals.ts";

const ASK_MS = 10_000;
const HOUR_S = 3_600;
const DAYS = [7, 30, 90, 365];
const TABS = { "": "By user", project: "By project", pool: "By pool", day: "By day", month: "By month" };
const WARNED_SHARE = 0.8;

export function UsagePage({ rest }: PageProps) {
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
        <Button key={each} label={`${each} days`} on={each === days} change={{ days: String(each) }} />
      ))}
      <Link label="CSV" href={csv} download={`usage-by-${by}.csv`} />
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
      <Command of={["usage", { by, since: `${days}d` }]} />
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
        command={["credits", "ls"]}
        empty="No user and no project uses credits."
        action="manage"
        forms={[GRANT]}
      />
    </Sheet>
  );
}

const share = (of: number) => <Bar long share={of} label={percent(of)} />;

const usedOf = ({ granted, balance }: CreditAccount) => (granted > 0 ? (granted - balance) / granted : 1);

function usedText(account: CreditAccount) {
  const used = usedOf(account);
  return used < WARNED_SHARE ? percent(used) : <span class="failed">⚠ {percent(used)}</span>;
}

const GRANT: Form = {
  verb: "Grant credits",
  text: "From the first grant on, the runs of the user or project use credits.",
  fields: [
    ["kind", "To a", "user", ["user", "project"]],
    ["name", "Name"],
    ["credits", "Credits", "", { type: "number", min: 0, step: "any" }],
    ["note", "Note", "", OPTIONAL],
  ],
  command: ({ kind = "", name, credits, note }) => ["credits", "grant", credits, { [kind]: name, note }],
  send: ({ kind, name, credits, note = "" }) => {
    const body = { account: `${kind}:${name}`, credits: Number(credits), note, key: crypto.randomUUID() };
    return ask("POST /credits", { body });
  },
};

export function ProjectsPage({ rest: project }: PageProps) {
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
        command={["projects"]}
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
          command={["members", "ls", project]}
          empty="All members of the server may use this project."
          action="account"
          forms={[addMember(project)]}
          formsOf={endMember}
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
  command: ({ user, role }) => ["members", "set", project, user, { role }],
  send: ({ user = "", role }) =>
    ask("PUT /projects/{project}/members", { path: { project }, body: { user, role: role as ActorRole } }),
});

const endMember = ({ project, user }: Membership): Form[] => [
  {
    verb: "End",
    title: `End the membership of ${user}`,
    destroys: true,
    command: () => ["members", "rm", project, user],
    send: () => ask("PUT /projects/{project}/members", { path: { project }, body: { user, role: null } }),
  },
];
