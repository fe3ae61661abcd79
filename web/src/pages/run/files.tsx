// The files of a run: versions of its artifacts, and the working directory of an attempt (`?attempt=`, `?dir=`).

import { urlOf } from "../../api/request.ts";
import type { Artifact, WorkFile } from "../../api/types.ts";
import { List } from "../../parts/list.tsx";
import { Age } from "../../parts/shown.tsx";
import { bytes, count } from "../../parts/text.ts";
import { query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import type { TabProps } from "./page.tsx";

const ASK_MS = 5_000;
const MORE = "More files: the command lists all.";

export function Files({ run }: TabProps) {
  const start = ({ id, kind }: Artifact) =>
    kind === "checkpoint" &&
    may("submit") && <a href={`/new?clone=${run.id}&from=${id}`}>Start a run from it…</a>;
  return (
    <div class="sheet">
      <List
        title="Artifacts"
        operation="GET /artifacts"
        query={{ run: run.id }}
        everyMs={run.state === "ended" ? 0 : ASK_MS}
        rows={(versions) => versions.toReversed()}
        columns={[
          ["Version", ({ id, kind, number }) => <a href={`/artifacts/${id}`}>{`${kind} ${number}`}</a>],
          ["Files", ({ files }) => count(files), "right"],
          ["Size", (each) => bytes(each.bytes), "right"],
          ["Age", ({ created_at }) => <Age at={created_at} />, "right"],
          ["Left out, not complete", ({ left_out }) => left_out.join(", "), "wide"],
          ["", start, "right"],
        ]}
        command={["artifacts", "get", run.id]}
      />
      {run.attempt > 0 && <Work run={run} />}
    </div>
  );
}

function Work({ run }: TabProps) {
  const attempt = Number(query.value.get("attempt") ?? run.attempt);
  const dir = query.value.get("dir") ?? "";
  const path = { run: run.id };
  const within = (inner: string) => `?${new URLSearchParams({ attempt: String(attempt), dir: inner })}`;
  const link = ({ name, kind }: Pick<WorkFile, "name" | "kind">) => {
    const inner = dir ? `${dir}/${name}` : name;
    if (kind === "directory") return <a href={within(inner)}>{`${name}/`}</a>;
    if (kind !== "file") return name;
    const href = urlOf("GET /runs/{run}/file", { path, query: { path: inner, attempt, whole: true } });
    return (
      <a href={href} download={name}>
        {name}
      </a>
    );
  };
  return (
    <>
      {run.attempt > 1 && (
        <label class="field">
          <span>Attempt</span>
          <input
            type="number"
            min="1"
            max={run.attempt}
            value={attempt}
            onChange={({ currentTarget }) => setQuery({ attempt: currentTarget.value, dir: null })}
          />
        </label>
      )}
      {dir && <a href={within(dir.split("/").slice(0, -1).join("/"))}>↑ {dir}</a>}
      <List
        title="Working directory"
        operation="GET /runs/{run}/files"
        path={path}
        query={{ path: dir, attempt }}
        rows={({ files, more }) => [...files, ...(more ? [{ name: MORE, kind: "other", bytes: 0 }] : [])]}
        columns={[
          ["File", link],
          ["Size", (each) => each.kind === "file" && bytes(each.bytes), "right"],
        ]}
        command={["files", run.id, dir || null, { attempt }]}
      />
    </>
  );
}
