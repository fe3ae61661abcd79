// The files of a run: versions of its artifacts, and the working directory of an attempt (`?attempt=`, `?dir=`).

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { askBytes } from "../../api/request.ts";
import type { Artifact, ArtifactEntry, Run } from "../../api/types.ts";
import { age, bytes, count } from "../../parts/amounts.ts";
import { Command } from "../../parts/command.tsx";
import { save } from "../../parts/download.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import type { TabProps } from "./page.tsx";

const ENTRIES_SHOWN = 500;

export function Files({ run }: TabProps): JSX.Element {
  const { data: versions } = useAnswer("GET /artifacts", { query: { run: run.id }, runs: [run.id] });
  return (
    <div class="columns">
      <section class="main-column">
        <h2>Artifacts</h2>
        {versions?.length === 0 && <p class="quiet">This run has kept nothing.</p>}
        {versions?.toReversed().map((version) => (
          <Version key={version.id} version={version} />
        ))}
        <h2>Working directory</h2>
        {run.attempt === 0 ? <p class="quiet">This run had no attempt.</p> : <Work run={run} />}
      </section>
      <aside class="facts">
        <Command text={`tarmac artifacts get ${run.id}`} />
        <Command text={`tarmac files ${run.id}`} />
      </aside>
    </div>
  );
}

function Version({ version }: { version: Artifact }): JSX.Element {
  const { id, kind, number, files, created_at, left_out } = version;
  const [open, setOpen] = useState(false);
  const { data } = useAnswer("GET /artifacts/{artifact}", { path: { artifact: id }, when: open });
  const entries = data?.entries.filter((entry) => entry.kind === "file") ?? [];
  return (
    <div class="panel version">
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <h3>{`${kind} ${number}`}</h3>
          <span class="quiet">
            {`${files} ${files === 1 ? "file" : "files"}, ${bytes(version.bytes)}, ${age(created_at, now.value)} ago`}
          </span>
        </summary>
        {left_out.length > 0 && <p class="quiet">Left out, not complete: {left_out.join(", ")}</p>}
        <table class="plain files">
          {entries.slice(0, ENTRIES_SHOWN).map((entry) => (
            <Row key={entry.path} name={entry.path} size={entry.bytes} parts={() => piecesOf(entry)} />
          ))}
        </table>
        {entries.length > ENTRIES_SHOWN && (
          <p>
            The first {ENTRIES_SHOWN} of {count(entries.length)}
          </p>
        )}
        {open && <Command text={`tarmac artifacts get ${id}`} />}
      </details>
      {kind === "checkpoint" && may("submit") && (
        <a href={`/new?clone=${version.run}&from=${id}`}>Start a run from it…</a>
      )}
    </div>
  );
}

function Work({ run }: { run: Run }): JSX.Element {
  const attempt = Number(query.value.get("attempt") ?? run.attempt);
  const dir = query.value.get("dir") ?? "";
  const path = { run: run.id };
  const { data, problem } = useAnswer("GET /runs/{run}/files", { path, query: { path: dir, attempt } });
  const within = (inner: string) => `?${new URLSearchParams({ attempt: String(attempt), dir: inner })}`;
  async function* partsOf(file: string): AsyncGenerator<Blob> {
    for (let offset = 0; ; ) {
      const part = await askBytes("GET /runs/{run}/file", { path, query: { path: file, attempt, offset } });
      if (part.size === 0) return;
      offset += part.size;
      yield part;
    }
  }
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
      {problem && <Problem problem={problem} />}
      <table class="plain files">
        {dir && <Row name=".." href={within(dir.split("/").slice(0, -1).join("/"))} />}
        {data?.files.map(({ name, kind, bytes: size }) => {
          const inner = dir ? `${dir}/${name}` : name;
          if (kind === "directory") return <Row key={name} name={`${name}/`} href={within(inner)} />;
          return <Row key={name} name={name} size={size} parts={() => partsOf(inner)} />;
        })}
      </table>
      {data?.more && <p class="quiet">There are more files: the command lists all.</p>}
    </>
  );
}

interface RowProps {
  name: string;
  href?: string;
  size?: number;
  parts?: () => AsyncIterable<Blob>;
}

function Row({ name, href, size = 0, parts }: RowProps): JSX.Element {
  const [done, setDone] = useState<number | null>(null);
  async function download(found: AsyncIterable<Blob>): Promise<void> {
    setDone(0);
    await save(name.slice(name.lastIndexOf("/") + 1), found, setDone).catch(notifyFailure);
    setDone(null);
  }
  return (
    <tr>
      <td>{href ? <a href={href}>{name}</a> : name}</td>
      <td class="right">{parts && bytes(size)}</td>
      <td class="right">
        {parts && (
          <button
            type="button"
            class="quiet"
            aria-label={`Download ${name}`}
            disabled={done !== null}
            onClick={() => void download(parts())}
          >
            {done === null ? "download" : `${Math.floor((100 * done) / Math.max(1, size))} %`}
          </button>
        )}
      </td>
    </tr>
  );
}

async function* piecesOf({ pieces }: ArtifactEntry): AsyncGenerator<Blob> {
  for (const { digest } of pieces)
    yield await askBytes("GET /artifact-pieces/{piece}", { path: { piece: digest } });
}
