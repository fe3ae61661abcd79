// Artifacts that runs keep, `/artifacts`, and the files of one, `/artifacts/ID`; datasets that runs read, `/datasets`.

import { ask, urlOf } from "../../api/request.ts";
import type { ArtifactEntry, Dataset } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { Input } from "../../parts/controls.tsx";
import type { Form } from "../../parts/form.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { Age } from "../../parts/shown.tsx";
import { bytes, count } from "../../parts/text.ts";
import { go, query } from "../../state/place.ts";
import { may } from "../../state/session.ts";

const MOST = 200;
const DATASETS_MS = 3_000;

export function ArtifactsPage({ rest: id }: PageProps) {
  const text = query.value.get("text") ?? "";
  if (id) return <Files key={id} id={id} />;
  const label = "Run, kind or id of artifacts";
  const search = <Input type="search" name="text" label={label} placeholder="Run, kind or id" />;
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
          ["Age", ({ created_at }) => <Age at={created_at} />, "right"],
        ]}
        command={["artifacts", "ls"]}
        empty="No run has kept such an artifact."
      />
    </Sheet>
  );
}

function Files({ id }: { id: string }) {
  const artifact = { artifact: id };
  const remove: Form = {
    verb: "Remove",
    title: `Remove ${id}`,
    text: "A run that resumes from it or reads it prevents this.",
    destroys: true,
    command: () => ["artifacts", "rm", id],
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
        command={["artifacts", "get", id]}
        action="control"
        forms={[remove]}
      />
    </Sheet>
  );
}

const sizeOf = ({ done_bytes, total_bytes }: Dataset) =>
  total_bytes === null ? bytes(done_bytes || null) : `${bytes(done_bytes)} of ${bytes(total_bytes)}`;

export const DatasetsPage = () => (
  <Sheet title="Datasets">
    <List
      title="Data that runs read"
      operation="GET /datasets"
      everyMs={DATASETS_MS}
      columns={[
        ["At", ({ id }) => <code>/data/{id}</code>],
        ["State", ({ state, message }) => <span class={message ? "failed" : ""}>{message ?? state}</span>],
        ["Downloaded", sizeOf, "wide"],
        ["Source", ({ source }) => <code>{source}</code>],
        ["User", ({ user }) => user, "wide"],
      ]}
      command={["datasets", "ls"]}
      forms={may("submit") ? [ADD_DATASET] : []}
      formsOf={may("control") ? removeDataset : undefined}
    />
  </Sheet>
);

const ADD_DATASET: Form = {
  verb: "Add a dataset",
  text: "The source is a path on the server's machine, or a URL, which is downloaded once.",
  fields: [
    ["id", "Id"],
    ["source", "Source"],
  ],
  command: ({ id, source }) => ["datasets", "add", id, source],
  send: ({ id = "", source = "" }) => ask("POST /datasets", { body: { id, source } }),
};

const removeDataset = ({ id, source }: Dataset): Form[] => [
  {
    verb: "Remove",
    title: `Remove ${id}`,
    text: `Its downloaded files are deleted; ${source} stays. A run that reads it prevents this.`,
    destroys: true,
    command: () => ["datasets", "rm", id],
    send: () => ask("DELETE /datasets/{dataset}", { path: { dataset: id } }),
  },
];
