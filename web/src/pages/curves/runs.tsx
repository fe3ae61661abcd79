// The compared runs: their colours, one pinned as the baseline, some hidden; and their parameters side by side.

import type { JSX } from "preact";
import type { Run } from "../../api/types.ts";
import { Command } from "../../parts/command.tsx";
import { type Cell, Rows } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { differing, flat, short } from "../../parts/values.ts";
import { query, setQuery } from "../../state/place.ts";
import { statusOf } from "../runs/status.ts";
import { hovered } from "./plot.ts";
import { curveColour, isDashed } from "./points.ts";
import type { Settings } from "./view.tsx";

export function RunList({ runs, settings }: { runs: Run[]; settings: Settings }): JSX.Element {
  const { baseline, hidden } = settings;
  const without = (ids: string[], id: string) => ids.filter((each) => each !== id);
  return (
    <ul class="legend curve-runs" aria-label="Compared runs">
      {runs.map(({ id, name, state, outcome }, index) => (
        <li
          key={id}
          data-hovered={hovered.value === index ? "" : undefined}
          onPointerEnter={() => (hovered.value = index)}
          onPointerLeave={() => (hovered.value = null)}
        >
          <input
            type="checkbox"
            aria-label={`Show ${name}`}
            checked={!hidden.includes(id)}
            onChange={() => setQuery({ hide: hidden.includes(id) ? without(hidden, id) : [...hidden, id] })}
          />
          <span class={isDashed(index) ? "swatch dashed" : "swatch"} style={{ color: curveColour(index) }} />
          <a href={`/run/${id}`}>{name}</a>
          <Status value={statusOf({ state, outcome })} />
          <button
            type="button"
            class="quiet"
            aria-pressed={baseline === id}
            aria-label={`pin ${name} as the baseline`}
            title="The baseline: the others are compared with it"
            onClick={() => setQuery({ baseline: baseline === id ? null : id })}
          >
            {baseline === id ? <b>baseline</b> : "pin"}
          </button>
          <button
            type="button"
            class="quiet"
            aria-label={`Remove ${name} from the comparison`}
            onClick={() => setQuery({ run: without(query.value.getAll("run"), id) })}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The parameters that differ between runs. */
export function Parameters({ runs }: { runs: Run[] }): JSX.Element {
  const specs = runs.map(({ spec }) => flat(spec));
  const columns = runs.map(
    ({ id, name: title }, at): Cell<string> => [`${title} ${id}`, (name) => short(specs[at]?.[name])],
  );
  return (
    <section class="plots">
      <div class="plot-scroll">
        <Rows
          label="Parameters"
          rows={differing(specs)}
          columns={[["Parameter", (name) => name], ...columns]}
          empty="Nothing differs."
        />
      </div>
      {runs.length === 2 && <Command text={`tarmac diff ${runs.map(({ id }) => id).join(" ")}`} />}
    </section>
  );
}
