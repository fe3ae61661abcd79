// A button that is pressed or not, and the change of the query that it makes.

import type { JSX } from "preact";
import { type QueryChange, setQuery } from "../state/place.ts";

export function Toggle(props: { label: string; on: boolean; change: QueryChange }): JSX.Element {
  return (
    <button
      type="button"
      class="button toggle"
      aria-pressed={props.on}
      onClick={() => setQuery(props.change)}
    >
      {props.label}
    </button>
  );
}
