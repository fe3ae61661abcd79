// The history of a run: every event with its time and who caused it, and the notes about the run.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import { duration, time } from "../../parts/amounts.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import { Status } from "../../parts/status.tsx";
import { useAnswer } from "../../state/answer.ts";
import { may } from "../../state/session.ts";
import type { TabProps } from "./page.tsx";

export function History({ run }: TabProps): JSX.Element {
  const path = { run: run.id };
  const { data: events } = useAnswer("GET /runs/{run}/events", { path, runs: [run.id] });
  const { data: annotations, again } = useAnswer("GET /runs/{run}/annotations", { path });
  return (
    <div class="columns">
      <section class="main-column">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col" class="right">
                After
              </th>
              <th scope="col">State</th>
              <th scope="col">Event</th>
              <th scope="col">By</th>
            </tr>
          </thead>
          <tbody>
            {events?.map(({ seq, at, state, event, actor }, index) => (
              <tr key={seq}>
                <td>
                  <time>{time(at)}</time>
                </td>
                <td class="right">{index > 0 && duration(at - (events[index - 1]?.at ?? at))}</td>
                <td>
                  <Status value={state} />
                </td>
                <td>{event.replaceAll("_", " ")}</td>
                <td>{actor}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <aside class="facts">
        <h2>Notes</h2>
        {annotations?.map(({ at, actor, text }) => (
          <p key={`${at}${text}`} class="note">
            {text}{" "}
            <span class="quiet">
              {actor}, <time>{time(at)}</time>
            </span>
          </p>
        ))}
        {may("control") && <NoteForm run={run.id} onAdded={again} />}
      </aside>
    </div>
  );
}

function NoteForm({ run, onAdded }: { run: string; onAdded: () => void }): JSX.Element {
  const [text, setText] = useState("");
  async function add(event: Event): Promise<void> {
    event.preventDefault();
    try {
      await ask("POST /runs/{run}/notes", { path: { run }, body: { text } });
      setText("");
      onAdded();
    } catch (problem) {
      notifyFailure(problem);
    }
  }
  return (
    <form class="note-form" onSubmit={(event) => void add(event)}>
      <textarea
        aria-label="Note"
        rows={3}
        maxLength={4000}
        required
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      <button type="submit" class="button">
        Add a note
      </button>
    </form>
  );
}
