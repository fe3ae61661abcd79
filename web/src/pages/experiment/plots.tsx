// The parameters of trials against their metric: parallel coordinates, and one scatter for each parameter.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { differing, flat, short } from "../../parts/text.ts";
import { go } from "../../state/place.ts";
import { type Axis, axisOf } from "./axes.ts";
import type { TabProps } from "./page.tsx";

const WIDE = { width: 1000, height: 290, top: 30, side: 60 };
const SMALL = { width: 300, height: 190, bottom: 34, left: 46 };
const LEAST_SHADE = 0.15;

/** `marks`: the trials, the best last, so that it is above the others, with their place on each axis. */
interface PlotProps {
  marks: { key: number; look: { "data-rank": number; opacity: number }; places: (number | null)[] }[];
  /** Those of the parameters, and last that of the metric. */
  axes: Axis[];
}

export function Plots({ experiment: { search }, best: ranked }: TabProps) {
  const root = useRef<HTMLDivElement>(null);
  const pointed = useSignal<string | null>(null);
  const ranges = flat(search.parameters);
  const names = differing(ranked.map(({ parameters }) => parameters));
  const values = ranked.map(({ parameters, best }) => {
    const found = flat(parameters);
    return [...names.map((name) => found[name]), best];
  });
  const valuesAt = (at: number) => values.map((row) => row[at]);
  const all = [...names, search.metric];
  const axes = all.map((name, at) => axisOf(name, valuesAt(at), `${name}.log` in ranges));
  const marks = ranked.map(({ number }, rank) => {
    const opacity = 1 - ((1 - LEAST_SHADE) * rank) / ranked.length;
    const places = axes.map(({ place }, at) => place(values[rank]?.[at]));
    return { key: number, look: { "data-rank": rank, opacity }, places };
  });
  marks.reverse();
  /** Mark a trial in every plot; the plots are not drawn again for it. */
  function point({ target }: Event): void {
    pointed.value = (target as Element).getAttribute("data-rank");
    for (const each of root.current?.querySelectorAll("[data-rank]") ?? [])
      each.classList.toggle("pointed", each.getAttribute("data-rank") === pointed.value);
  }
  const rank = Number(pointed.value ?? -1);
  const trial = ranked[rank];
  const text = axes.map(({ name }, at) => `${name} ${short(values[rank]?.[at])}`).join(", ");
  const hint = `${ranked.length} trials with ${search.metric}; the stronger, the better. Point at one for its values.`;
  return (
    // biome-ignore lint/a11y: the tab of trials has the same values and links for the keyboard
    <div
      ref={root}
      class="plots"
      tabIndex={0}
      onMouseOver={point}
      onClick={() => trial && go(`/run/${trial.run}`)}
    >
      <p>{trial ? `${trial.name}: ${text}` : <span class="quiet">{hint}</span>}</p>
      <div class="plot-scroll" tabIndex={0}>
        <Parallel marks={marks} axes={axes} />
      </div>
      <div class="plot-grid">
        {names.map((name, at) => (
          <Scatter key={name} marks={marks} axes={axes} at={at} />
        ))}
      </div>
    </div>
  );
}

function Parallel({ marks, axes }: PlotProps) {
  const { width, height, top, side } = WIDE;
  const x = (index: number) => side + ((width - 2 * side) * index) / Math.max(1, axes.length - 1);
  const y = (place: number) => height - 10 - place * (height - 10 - top);
  return (
    <svg class="plot" viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Parallel coordinates">
      {marks.map(({ key, look, places }) => {
        const points = places.flatMap((place, at) => (place === null ? [] : `${x(at)},${y(place)}`));
        return <polyline {...look} key={key} points={points.join(" ")} />;
      })}
      {axes.map(({ name, ticks }, index) => (
        <g key={name} transform={`translate(${x(index)})`}>
          <path d={`M0 ${top}V${height - 10}`} />
          {label(name, 0, 14, "axis-name")}
          {ticks.map(({ text, at }) => label(text, -5, y(at) + 4, "left"))}
        </g>
      ))}
    </svg>
  );
}

function Scatter({ marks, axes, at: index }: PlotProps & { at: number }) {
  const { width, height, bottom, left } = SMALL;
  const x = (place: number) => left + place * (width - left - 10);
  const y = (place: number) => height - bottom - place * (height - bottom - 10);
  const [across, up] = [axes[index], axes.at(-1)];
  return (
    <svg
      class="plot"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`${up?.name} by ${across?.name}`}
    >
      <path d={`M${left - 6} 10V${height - bottom + 6}H${width - 10}`} />
      {across?.ticks.map(({ text, at }) => label(text, x(at), height - bottom + 18))}
      {up?.ticks.map(({ text, at }) => label(text, left - 10, y(at) + 4, "left"))}
      {label(across?.name ?? "", (left + width) / 2, height - 2, "axis-name")}
      {marks.map(({ key, look, places }) => {
        const [first, last] = [places[index] ?? null, places.at(-1) ?? null];
        return (
          first !== null && last !== null && <circle {...look} key={key} cx={x(first)} cy={y(last)} r={3} />
        );
      })}
    </svg>
  );
}

function label(text: string, x: number, y: number, kind = "") {
  return (
    <text key={text} class={kind} x={x} y={y}>
      {text}
    </text>
  );
}
