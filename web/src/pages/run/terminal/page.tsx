// A terminal beside a worker of a run. A command that a link names runs only after a person agrees.

import { useEffect, useRef, useState } from "preact/hooks";
import { Command } from "../../../parts/shown.tsx";
import { useAnswer } from "../../../state/answer.ts";
import { query } from "../../../state/place.ts";
import { openScreen } from "./screen.ts";

const CONNECTS = "connecting…";

export function TerminalPage({ id }: { id: string }) {
  const { data: run } = useAnswer("GET /runs/{run}", { path: { run: id } });
  const [role, replica, worker, given] = ["role", "replica", "worker", "command"].map((name) =>
    query.value.get(name),
  );
  const [command, setCommand] = useState(given ?? "");
  const [round, setRound] = useState(given ? 0 : 1);
  const [end, setEnd] = useState<string | null>(given ? "" : CONNECTS); // null while it is open
  const screen = useRef<HTMLDivElement>(null);
  const number = (text: string | null | undefined) => (text ? Number(text) : null);

  useEffect(() => {
    document.title = `${run?.name ?? id} · terminal · tarmac`;
  }, [run?.name]);
  useEffect(() => {
    if (!screen.current || round === 0) return;
    const argv = command ? ["sh", "-c", command] : [];
    const opening = { role: role ?? null, replica: number(replica), worker: number(worker), command: argv };
    return openScreen(screen.current, id, opening, setEnd);
  }, [round]);
  useEffect(() => {
    globalThis.onbeforeunload = end === null ? (event) => event.preventDefault() : null;
  }, [end]);

  function start(event: Event): void {
    event.preventDefault();
    setEnd(CONNECTS);
    setRound(round + 1);
  }
  const which = { role, replica, worker };
  const words = command ? ["exec", "-it", id, which, "--", "sh", "-c", command] : ["shell", id, which];
  return (
    <main class="page">
      <form class="bar" onSubmit={start}>
        <h1>
          <a href={`/run/${id}`}>{run?.name ?? id}</a>
        </h1>
        <span class="quiet">{role ? `${role}.${replica ?? 0}.${worker ?? 0}` : "the first worker"}</span>
        <input
          aria-label="Command"
          placeholder="Command: your shell"
          value={command}
          disabled={end === null}
          onInput={({ currentTarget }) => setCommand(currentTarget.value)}
        />
        <button type="submit" class="button" disabled={end === null}>
          {round === 0 ? "Start" : "Start again"}
        </button>
        <span role="status">{end ?? "connected"}</span>
      </form>
      <div ref={screen} class="terminal" />
      <Command of={words} />
    </main>
  );
}
