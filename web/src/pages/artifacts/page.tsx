// Artifacts, `/artifacts`: the versions that runs keep; and the files of one, `/artifacts/ID`, to download.

import type { JSX } from "preact";
import { ask, urlOf } from "../../api/request.ts";
import type { Artifact, ArtifactEntry } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { age, bytes, count } from "../../parts/amounts.ts";
import type { Form } from "../../parts/form.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { now } from "../../state/clock.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";

const MOST = 1_000;

export function ArtifactsPage({ rest: id }: PageProps): JSX.Element {
  const text = query.value.get("text") ?? "";
  const search = (
    <input
      type="search"
      placeholder="Run, kind or id"
      aria-label="Run, kind or id of artifacts"
      value={text}
      onInput={({ currentTarget }) => setQuery({ text: currentTarget.value || null }, { replace: true })}
    />
  );
  const names = ({ run_name, kind, id: each }: Artifact) => `${run_name} ${kind} ${each}`.toLowerCase();
  if (id) return <Files key={id} id={id} />;
  return (
    <Sheet title="Artifacts" bar={search}>
      <List
        title="Artifacts"
        heading={false}
        operation="GET /artifacts"
        rows={(all) =>
          all
            .filter((each) => names(each).includes(text.toLowerCase()))
            .reverse()
            .slice(0, MOST)
        }
        columns={[
          ["Id", (each) => <a href={`/artifacts/${each.id}`}>{each.id}</a>],
          ["Run", ({ run, run_name }) => <a href={`/run/${run}`}>{run_name ?? run}</a>],
          ["Kind", ({ kind }) => kind, "wide"],
          ["Rank", ({ rank }) => rank, "right"],
          ["Files", ({ files }) => count(files), "right"],
          ["Size", (each) => bytes(each.bytes), "right"],
          ["Age", ({ created_at }) => age(created_at, now.value), "right"],
        ]}
        command={commandLine("artifacts", "ls")}
        empty="No run has kept such an artifact."
      />
    </Sheet>
  );
}

function Files({ id }: { id: string }): JSX.Element {
  const remove: Form = {
    verb: "Remove",
    title: `Remove ${id}`,
    text: "A run that resumes from it or reads it prevents this.",
    destroys: true,
    command: () => commandLine("artifacts", "rm", id),
    send: () => ask("DELETE /artifacts/{artifact}", { path: { artifact: id } }).then(() => go("/artifacts")),
  };
  const link = ({ path, kind, target }: ArtifactEntry) => {
    if (kind !== "file") return `${path} → ${target}`;
    const href = urlOf("GET /artifacts/{artifact}/file", { path: { artifact: id }, query: { path } });
    return (
      <a href={href} download={path.split("/").pop()}>
        {path}
      </a>
    );
  };
  return (
    <Sheet title="Artifact">
      <List
        title={id}
        operation="GET /artifacts/{artifact}"
        path={{ artifact: id }}
        rows={({ entries }) => entries.filter(({ kind }) => kind !== "directory")}
        columns={[
          ["File", link],
          ["Size", (entry) => entry.kind === "file" && bytes(entry.bytes), "right"],
        ]}
        command={commandLine("artifacts", "get", id)}
        empty="It has no files."
        forms={may("control") ? [remove] : undefined}
      />
    </Sheet>
  );
}
