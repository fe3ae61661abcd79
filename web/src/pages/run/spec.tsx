// The spec of a run: its file, and what was read from it. And what differs from another run (`?with=RUN`).

import { Rows } from "../../parts/list.tsx";
import { Command, Problem } from "../../parts/shown.tsx";
import { useAnswer } from "../../state/answer.ts";
import { query, setQuery } from "../../state/place.ts";
import { type Difference, differences } from "./differences.ts";
import type { TabProps } from "./page.tsx";

export const Spec = ({ run }: TabProps) => (
  <div class="columns">
    <section class="main-column">
      <p class="note quiet">{run.warnings.join("\n")}</p>
      <h2>
        Submitted <span class="quiet">{run.dialect}</span>
      </h2>
      <pre class="source">{run.source || "(no file)"}</pre>
      <h2>Spec</h2>
      <pre class="source">{JSON.stringify(run.spec, null, 2)}</pre>
    </section>
    <aside class="facts">
      <h2>Run it again</h2>
      <Command of={["run", { clone: run.id }]} />
      <p class="quiet">From its last checkpoint:</p>
      <Command of={["run", { clone: run.id, resume: true }]} />
    </aside>
  </div>
);

/** The differences from another run: by default the one before it of the same name. */
export function DifferenceTab({ run }: TabProps) {
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
        {other && <Command of={["diff", other, run.id]} />}
      </aside>
    </div>
  );
}
