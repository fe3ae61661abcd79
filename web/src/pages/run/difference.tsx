// What differs between a run and another one (`?with=RUN`): by default the one before it of the same name.

import type { JSX } from "preact";
import { Command } from "../../parts/command.tsx";
import { Rows } from "../../parts/list.tsx";
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
  const details = { path: { run: other }, when: other !== "" };
  const { data: before, problem } = useAnswer("GET /runs/{run}", details);
  const code = useAnswer("GET /runs/{run}/code-changes", {
    path: { run: run.id },
    query: { after: before?.id ?? "" },
    when: before !== null,
  });
  const files = code.data?.map((each): Difference => [each.path, "", each.change]) ?? [];
  return (
    <div class="columns">
      <section class="main-column difference">
        {problem && <Problem problem={problem} />}
        {code.problem && <p class="quiet">{code.problem.message}</p>}
        {before && (
          <Rows
            label="Differences"
            rows={[...differences(before.spec, run.spec), ...files]}
            columns={[
              ["Difference", ([name]) => name],
              [`${before.name} ${before.id}`, ([, value]) => <span class="failed">{value}</span>],
              [`${run.name} ${run.id}`, ([, , value]) => <span class="changed">{value}</span>],
            ]}
            empty="Nothing differs."
          />
        )}
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
        {before && <a href={`/run/${before.id}`}>{before.name}</a>}
        {other && <Command text={`tarmac diff ${other} ${run.id}`} />}
      </aside>
    </div>
  );
}
