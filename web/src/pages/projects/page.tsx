// Projects, `/projects`: their ids, runs and use; and the members of one, `/projects/ID`.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { ActorRole, Membership } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { count } from "../../parts/amounts.ts";
import type { Form } from "../../parts/form.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { useAnswer } from "../../state/answer.ts";
import { may } from "../../state/session.ts";
import { totals } from "../usage/totals.ts";

const ASK_MS = 10_000;

export function ProjectsPage({ rest: project }: PageProps): JSX.Element {
  const { data: used } = useAnswer("GET /usage", { everyMs: ASK_MS });
  const hours = new Map(totals(used ?? [], "project").map(({ name, slot_s }) => [name, slot_s / 3600]));
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
        everyMs={ASK_MS}
        rows={({ project: counts }) => Object.entries(counts ?? {})}
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
      {project && <Members key={project} project={project} />}
    </Sheet>
  );
}

function Members({ project }: { project: string }): JSX.Element {
  return (
    <List
      title={`Members of ${project}`}
      operation="GET /projects/{project}/members"
      path={{ project }}
      rows={(found) => found}
      columns={[
        ["User", ({ user }) => user],
        ["Role", ({ role }) => role],
      ]}
      command={commandLine("members", "ls", project)}
      empty="All members of the server may use this project."
      forms={may("account") ? [add(project)] : undefined}
      formsOf={may("account") ? (member) => [end(member)] : undefined}
    />
  );
}

function add(project: string): Form {
  return {
    verb: "Set a member",
    title: `A member of ${project}`,
    fields: [
      ["user", "User"],
      ["role", "Role", ["member", "viewer", "admin"]],
    ],
    command: ({ user, role }) => commandLine("members", "set", project, user, "--role", role),
    send: ({ user = "", role }) => {
      const body = { user, role: role as ActorRole };
      return ask("PUT /projects/{project}/members", { path: { project }, body });
    },
  };
}

function end({ project, user }: Membership): Form {
  return {
    verb: "End",
    title: `End the membership of ${user}`,
    destroys: true,
    command: () => commandLine("members", "rm", project, user),
    send: () => ask("PUT /projects/{project}/members", { path: { project }, body: { user, role: null } }),
  };
}
