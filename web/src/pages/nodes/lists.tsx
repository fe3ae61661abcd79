// Beside the map: who holds slots without use, and the nodes that get no work.

import type { JSX } from "preact";
import type { NodeAnswer } from "../../api/types.ts";
import { count, time } from "../../parts/amounts.ts";
import { setQuery } from "../../state/place.ts";
import type { Holder } from "./slots.ts";

const SHOWN = 20;

export function Idle({ holders }: { holders: Holder[] }): JSX.Element | null {
  if (holders.length === 0) return null;
  const slots = holders.reduce((sum, each) => sum + each.slots, 0);
  return (
    <section>
      <h2>
        Held without use <span class="quiet">{count(slots)} slots</span>
      </h2>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">Run</th>
            <th scope="col" class="right">
              Slots
            </th>
          </tr>
        </thead>
        <tbody>
          {holders.slice(0, SHOWN).map(({ user, run, slots: held, nodes }) => (
            <tr key={run.id} title={nodes.join(", ")}>
              <td>
                <a href={`/?${new URLSearchParams({ user, status: "running" })}`}>{user}</a>
              </td>
              <td>
                <a href={`/run/${run.id}`}>{run.name}</a>
              </td>
              <td class="right">{held}</td>
            </tr>
          ))}
        </tbody>
        <More shown={holders.length} />
      </table>
    </section>
  );
}

export function Unavailable({ nodes }: { nodes: NodeAnswer[] }): JSX.Element | null {
  const found = nodes.filter(({ state, drain }) => state !== "up" || drain !== null);
  if (found.length === 0) return null;
  return (
    <section>
      <h2>
        Drained or lost <span class="quiet">{count(found.length)}</span>
      </h2>
      <table class="plain">
        <tbody>
          {found.slice(0, SHOWN).map(({ name, state, reason, drain }) => (
            <tr key={name}>
              <td>
                <button type="button" class="link" onClick={() => setQuery({ node: name })}>
                  {name}
                </button>
              </td>
              <td>
                {drain?.slots.length ? `slots ${drain.slots.join(", ")} drained` : state}
                {reason && `: ${reason}`}
                <br />
                <span class="quiet">{[drain?.user, time(drain?.at ?? null)].filter(Boolean).join(", ")}</span>
              </td>
            </tr>
          ))}
        </tbody>
        <More shown={found.length} />
      </table>
    </section>
  );
}

function More({ shown }: { shown: number }): JSX.Element | null {
  return shown > SHOWN ? (
    <caption class="quiet">
      The first {SHOWN} of {count(shown)}
    </caption>
  ) : null;
}
