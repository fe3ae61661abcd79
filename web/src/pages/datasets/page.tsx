// Datasets, `/datasets`: data that runs read at /data/ID, and how much of each was downloaded.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { Dataset } from "../../api/types.ts";
import { bytes } from "../../parts/amounts.ts";
import type { Form } from "../../parts/form.tsx";
import { List, Sheet } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { may } from "../../state/session.ts";

const ASK_MS = 3_000;

const ADD: Form = {
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

export function DatasetsPage(): JSX.Element {
  const size = ({ done_bytes, total_bytes }: Dataset) =>
    total_bytes === null ? bytes(done_bytes || null) : `${bytes(done_bytes)} of ${bytes(total_bytes)}`;
  return (
    <Sheet title="Datasets">
      <List
        title="Data that runs read"
        operation="GET /datasets"
        everyMs={ASK_MS}
        rows={(found) => found}
        columns={[
          ["At", ({ id }) => <code>/data/{id}</code>],
          ["State", ({ state, message }) => <span class={message ? "failed" : ""}>{message ?? state}</span>],
          ["Downloaded", size, "wide"],
          ["Source", ({ source }) => <code>{source}</code>],
          ["User", ({ user }) => user, "wide"],
        ]}
        command={commandLine("datasets", "ls")}
        empty="There is no dataset."
        forms={may("submit") ? [ADD] : undefined}
        formsOf={may("control") ? (dataset) => [remove(dataset)] : undefined}
      />
    </Sheet>
  );
}

function remove({ id, source }: Dataset): Form {
  return {
    verb: "Remove",
    title: `Remove ${id}`,
    text: `Its downloaded files are deleted; ${source} stays. A run that reads it prevents this.`,
    destroys: true,
    command: () => commandLine("datasets", "rm", id),
    send: () => ask("DELETE /datasets/{dataset}", { path: { dataset: id } }),
  };
}
