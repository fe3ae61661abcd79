// The compared runs with their colours: hide one, pin one as the baseline, remove one from the comparison.

import type { JSX } from "preact";
import type { Run } from "../../api/types.ts";
import { Status } from "../../parts/status.tsx";
import { query, setQuery } from "../../state/place.ts";
import { statusOf } from "../runs/status.ts";
import { hovered, type Settings } from "./chart.tsx";
import { curveColour, isDashed } from "./points.ts";

export function RunList({ runs, settings }: { runs: Run[]; settings: Settings }): JSX.Element {
  const { baseline, hidden } = settings;
  const without = (ids: string[], id: string) => ids.filter((each) => each !== id);
  return (
    <ul class="curve-runs" aria-label="Compared runs">
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
            aria-label={`Compare with ${name}`}
            title="The baseline: the others are compared with it"
            onClick={() => setQuery({ baseline: baseline === id ? null : id })}
          >
            {baseline === id ? "baseline" : "pin"}
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
