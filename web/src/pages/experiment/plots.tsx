// The parameters of trials against their metric: parallel coordinates, and one scatter for each parameter.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { Trial } from "../../api/types.ts";
import { go } from "../../state/place.ts";
import type { TabProps } from "./page.tsx";
import { type Axis, axisOf, differing, flat, valueText } from "./values.ts";

const WIDE = { width: 1000, height: 290, top: 30, side: 60 };
const SMALL = { width: 300, height: 190, bottom: 34, left: 46 };
const LEAST_SHADE = 0.15;

/** An axis, and the value of each trial on it. */
interface Dimension extends Axis {
  of: (trial: Trial) => unknown;
}

/** `marks`: what every trial looks like, the best last, so that it is above the others. */
interface PlotProps {
  marks: { trial: Trial; look: { key: number; "data-trial": number; opacity: number } }[];
  axes: Dimension[];
  metric: Dimension;
}

export function Plots({ experiment, best: ranked }: TabProps): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const pointed = useSignal<Trial | undefined>(undefined);
  const ranges = flat(experiment.search.parameters);
  const dimension = (name: string, of: Dimension["of"]): Dimension => ({
    ...axisOf(name, ranked.map(of), `${name}.log` in ranges),
    of,
  });
  const axes = differing(ranked).map((name) => dimension(name, (trial) => flat(trial.parameters)[name]));
  const metric = dimension(experiment.search.metric, ({ best }) => best);
  const marks = ranked.map((trial, index) => {
    const opacity = 1 - ((1 - LEAST_SHADE) * index) / ranked.length;
    return { trial, look: { key: trial.number, "data-trial": trial.number, opacity } };
  });
  const plot: PlotProps = { marks: marks.reverse(), axes, metric };
  /** Mark a trial in every plot; the plots are not drawn again for it. */
  function point({ target }: Event): void {
    const number = (target as Element).getAttribute("data-trial");
    for (const each of root.current?.querySelectorAll("[data-trial]") ?? [])
      each.classList.toggle("pointed", each.getAttribute("data-trial") === number);
    pointed.value = ranked.find((trial) => String(trial.number) === number);
  }
  const trial = pointed.value;
  const text =
    trial && [metric, ...axes].map((each) => `${each.name} ${valueText(each.of(trial))}`).join(", ");
  const hint = `${ranked.length} trials with ${metric.name}; the stronger, the better. Point at one for its values.`;
  return (
    // biome-ignore lint/a11y: the tab of trials has the same values and links for the keyboard
    <div ref={root} class="plots" onMouseOver={point} onClick={() => trial && go(`/run/${trial.run}`)}>
      <p>{trial ? `${trial.name}: ${text}` : <span class="quiet">{hint}</span>}</p>
      <div class="plot-scroll">
        <Parallel {...plot} />
      </div>
      <div class="plot-grid">
        {axes.map((axis) => (
          <Scatter key={axis.name} {...plot} axis={axis} />
        ))}
      </div>
    </div>
  );
}

function Parallel({ marks, axes, metric }: PlotProps): JSX.Element {
  const { width, height, top, side } = WIDE;
  const all = [...axes, metric];
  const x = (index: number) => side + ((width - 2 * side) * index) / Math.max(1, all.length - 1);
  const y = (place: number) => height - 10 - place * (height - 10 - top);
  const lines = marks.map(({ trial, look }) => {
    const places = all.map(({ place, of }, index) => [x(index), place(of(trial))] as const);
    const points = places.flatMap(([at, place]) => (place === null ? [] : `${at},${y(place)}`));
    return <polyline {...look} key={look.key} points={points.join(" ")} />;
  });
  return (
    <svg class="plot" viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Parallel coordinates">
      {lines}
      {all.map(({ name, ticks }, index) => (
        <g key={name} transform={`translate(${x(index)})`}>
          <path d={`M0 ${top}V${height - 10}`} />
          {label(name, 0, 14, "axis-name")}
          {ticks.map(({ text, at }) => label(text, -5, y(at) + 4, "left"))}
        </g>
      ))}
    </svg>
  );
}

function Scatter({ marks, metric, axis }: PlotProps & { axis: Dimension }): JSX.Element {
  const { width, height, bottom, left } = SMALL;
  const x = (place: number) => left + place * (width - left - 10);
  const y = (place: number) => height - bottom - place * (height - bottom - 10);
  const dots = marks.map(({ trial, look }) => {
    const [across, up] = [axis.place(axis.of(trial)), metric.place(metric.of(trial))];
    return (
      across !== null && up !== null && <circle {...look} key={look.key} cx={x(across)} cy={y(up)} r={3} />
    );
  });
  const name = `${metric.name} by ${axis.name}`;
  return (
    <svg class="plot" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={name}>
      <path d={`M${left - 6} 10V${height - bottom + 6}H${width - 10}`} />
      {axis.ticks.map(({ text, at }) => label(text, x(at), height - bottom + 18))}
      {metric.ticks.map(({ text, at }) => label(text, left - 10, y(at) + 4, "left"))}
      {label(axis.name, (left + width) / 2, height - 2, "axis-name")}
      {dots}
    </svg>
  );
}

function label(text: string, x: number, y: number, kind = ""): JSX.Element {
  return (
    <text key={text} class={kind} x={x} y={y}>
      {text}
    </text>
  );
}
