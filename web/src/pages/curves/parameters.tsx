// The parameters of compared runs side by side: those that differ, or all of them.

import type { JSX } from "preact";
import type { Run } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import { query, setQuery } from "../../state/place.ts";
import { flat } from "./points.ts";

export function Parameters({ runs }: { runs: Run[] }): JSX.Element {
  const all = query.value.has("all");
  const specs = runs.map(({ spec }) => new Map(flat(spec)));
  const names = [...new Set(specs.flatMap((spec) => [...spec.keys()]))];
  const differing = names.filter((name) => new Set(specs.map((spec) => spec.get(name))).size > 1);
  const [one, other] = runs;
  return (
    <section class="charts">
      <label>
        <input type="checkbox" checked={!all} onChange={() => setQuery({ all: all ? null : "1" })} /> Only
        what differs <span class="quiet">{`${differing.length} of ${names.length}`}</span>
      </label>
      <div class="parameters">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Parameter</th>
              {runs.map(({ id, name }) => (
                <th key={id} scope="col">
                  <a href={`/run/${id}`}>{name}</a>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(all ? names : differing).map((name) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {specs.map((spec, index) => (
                  <td key={runs[index]?.id}>{spec.get(name) ?? <span class="quiet">–</span>}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {runs.length === 2 && <Command text={`tarmac diff ${one?.id} ${other?.id}`} />}
    </section>
  );
}
