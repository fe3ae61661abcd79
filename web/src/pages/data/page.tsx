// Artifacts that runs keep, `/artifacts`, and the files of one, `/artifacts/ID`; datasets that runs read, `/datasets`.

import type { JSX } from "preact";
import { ask, urlOf } from "../../api/request.ts";
import type { ArtifactEntry, Dataset } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { age, bytes, count } from "../../parts/amounts.ts";
import type { Form } from "../../parts/form.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { now } from "../../state/clock.ts";
import { go, query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";

const MOST = 200;
const DATASETS_MS = 3_000;

export function ArtifactsPage({ rest: id }: PageProps): JSX.Element {
  const text = query.value.get("text") ?? "";
  if (id) return <Files key={id} id={id} />;
  const search = (
    <input
      type="search"
      placeholder="Run, kind or id"
      aria-label="Run, kind or id of artifacts"
      value={text}
      onInput={({ currentTarget }) => setQuery({ text: currentTarget.value || null }, { replace: true })}
    />
  );
  return (
    <Sheet title="Artifacts" bar={search}>
      <List
        title="Artifacts"
        heading={false}
        operation="GET /artifacts"
        query={{ text, limit: MOST }}
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
  const artifact = { artifact: id };
  const remove: Form = {
    verb: "Remove",
    title: `Remove ${id}`,
    text: "A run that resumes from it or reads it prevents this.",
    destroys: true,
    command: () => commandLine("artifacts", "rm", id),
    send: () => ask("DELETE /artifacts/{artifact}", { path: artifact }).then(() => go("/artifacts")),
  };
  const link = ({ path, kind, target }: ArtifactEntry) => {
    if (kind !== "file") return `${path} → ${target}`;
    const href = urlOf("GET /artifacts/{artifact}/file", { path: artifact, query: { path } });
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
        path={artifact}
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

export function DatasetsPage(): JSX.Element {
  const size = ({ done_bytes, total_bytes }: Dataset) =>
    total_bytes === null ? bytes(done_bytes || null) : `${bytes(done_bytes)} of ${bytes(total_bytes)}`;
  return (
    <Sheet title="Datasets">
      <List
        title="Data that runs read"
        operation="GET /datasets"
        everyMs={DATASETS_MS}
        columns={[
          ["At", ({ id }) => <code>/data/{id}</code>],
          ["State", ({ state, message }) => <span class={message ? "failed" : ""}>{message ?? state}</span>],
          ["Downloaded", size, "wide"],
          ["Source", ({ source }) => <code>{source}</code>],
          ["User", ({ user }) => user, "wide"],
        ]}
        command={commandLine("datasets", "ls")}
        empty="There is no dataset."
        forms={may("submit") ? [ADD_DATASET] : undefined}
        formsOf={may("control") ? (dataset) => [removeDataset(dataset)] : undefined}
      />
    </Sheet>
  );
}

const ADD_DATASET: Form = {
  verb: "Add a dataset",
  title: "Add a dataset",
  text: "The source is a path on the server's machine, or a URL, which is downloaded once.",
  fields: [
    ["id", "Id"],
    ["source", "Source"],
  ],
  command: ({ id, source }) => commandLine("datasets", "add", id, source),
  send: ({ id = "", source = "" }) => ask("POST /datasets", { body: { id, source } }),
};

const removeDataset = ({ id, source }: Dataset): Form => ({
  verb: "Remove",
  title: `Remove ${id}`,
  text: `Its downloaded files are deleted; ${source} stays. A run that reads it prevents this.`,
  destroys: true,
  command: () => commandLine("datasets", "rm", id),
  send: () => ask("DELETE /datasets/{dataset}", { path: { dataset: id } }),
});
