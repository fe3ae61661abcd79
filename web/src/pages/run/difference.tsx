// What differs between a run and another one (`?with=RUN`): by default the one before it of the same name.

import type { JSX } from "preact";
import type { Run } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query, setQuery } from "../../state/place.ts";
import { type Difference, differences } from "./differences.ts";
import type { TabProps } from "./page.tsx";

export function DifferenceTab({ run }: TabProps): JSX.Element {
  const chosen = query.value.get("with");
  const earlier = useAnswer("GET /runs", {
    query: { name: run.name, before: run.id, limit: 1, all: true },
    when: chosen === null,
  }).data?.runs;
  const other = chosen ?? earlier?.[0]?.id ?? "";
  const { data: before, problem } = useAnswer("GET /runs/{run}", {
    path: { run: other },
    when: other !== "",
  });
  return (
    <div class="columns">
      <section class="main-column">
        {problem && <Problem problem={problem} />}
        {before && <Differences before={before} after={run} />}
        {earlier?.length === 0 && <p class="quiet">There is no earlier run of this name.</p>}
      </section>
      <aside class="facts">
        <label class="field">
          <span>Compare with</span>
          <input
            key={other}
            defaultValue={other}
            placeholder="Name or id"
            onChange={({ currentTarget }) => setQuery({ with: currentTarget.value.trim() || null })}
          />
        </label>
        {other && <Command text={`tarmac diff ${other} ${run.id}`} />}
      </aside>
    </div>
  );
}

function Differences({ before, after }: { before: Run; after: Run }): JSX.Element {
  const path = { run: after.id };
  const code = useAnswer("GET /runs/{run}/code-changes", { path, query: { after: before.id } });
  const files = code.data?.map((each): Difference => [each.path, "", each.change]) ?? [];
  const rows = [...differences(before.spec, after.spec), ...files];
  return (
    <>
      {code.problem && <p class="quiet">{code.problem.message}</p>}
      <table class="plain difference">
        <thead>
          <tr>
            <th scope="col">{rows.length === 0 ? "Nothing differs" : "Difference"}</th>
            <th scope="col">
              <a href={`/run/${before.id}`}>{before.name}</a> <code>{before.id}</code>
            </th>
            <th scope="col">
              {after.name} <code>{after.id}</code>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([key, one, two]) => (
            <tr key={key}>
              <td>{key}</td>
              <td class="failed">{one}</td>
              <td class="changed">{two}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
