// The spec of a run: the file that was submitted, and what was read from it.

import type { JSX } from "preact";
import { Command } from "../../parts/command.tsx";
import type { TabProps } from "./page.tsx";

export function SpecTab({ run }: TabProps): JSX.Element {
  return (
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
        <Command text={`tarmac run --clone ${run.id}`} />
        <p class="quiet">From its last checkpoint:</p>
        <Command text={`tarmac run --clone ${run.id} --resume`} />
      </aside>
    </div>
  );
}
