// One chart: a metric of all runs. It is drawn while it is in view; hovering a line marks its run in all charts.

import { type Signal, signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Attempt, Run } from "../../api/types.ts";
import { count, duration } from "../../parts/amounts.ts";
import { notifyFailure } from "../../parts/notices.tsx";
import type { Plot, Read } from "./plot.ts";
import { type Axis, attemptMarks, axisOf, linesOf, type Metric, type Range, short } from "./points.ts";
import type { CurveSource } from "./source.ts";

export interface Settings {
  axis: Axis;
  range: Range;
  log: boolean;
  smooth: number;
  baseline: string | null;
  hidden: string[];
}

interface Props {
  metric: Metric;
  runs: Run[];
  attempts: Attempt[];
  source: CurveSource;
  settings: Settings;
  onZoom: (range: Range) => void;
}

/** The place of the run that the pointer is on. */
export const hovered: Signal<number | null> = signal(null);

const scheme = matchMedia("(prefers-color-scheme: dark)");
const dark = signal(scheme.matches);
scheme.addEventListener("change", () => (dark.value = scheme.matches));

const watched = new Map<Element, (inView: boolean) => void>();
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
  },
  { rootMargin: "150px" },
);

export function Chart(props: Props): JSX.Element {
  const { metric, source } = props;
  const element = useRef<HTMLElement>(null);
  const [inView, setInView] = useState(false);
  useEffect(() => {
    const target = element.current;
    if (!target) return;
    watched.set(target, setInView);
    observer.observe(target);
    return () => {
      watched.delete(target);
      observer.unobserve(target);
    };
  }, []);
  useEffect(() => (inView ? source.view(metric) : undefined), [inView, source, metric]);
  return (
    <article ref={element} class="chart" aria-label={metric.name}>
      <h3 title={metric.name}>{metric.name}</h3>
      {inView && <Shown {...props} />}
    </article>
  );
}

function Shown({ metric, runs, attempts, source, settings, onZoom }: Props): JSX.Element {
  const { range, log, smooth, baseline, hidden } = settings;
  const element = useRef<HTMLDivElement>(null);
  const [plot, setPlot] = useState<Plot | null>(null);
  const read = useSignal<Read | null>(null);
  const axis = axisOf(metric, settings.axis);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  useEffect(() => {
    let made: Plot | null = null;
    let left = false;
    import("./plot.ts").then(({ Plot }) => {
      if (left || !element.current) return;
      made = new Plot(element.current, {
        onZoom: (next) => zoom.current(next),
        onHover: (run) => (hovered.value = run),
        onRead: (next) => (read.value = next),
      });
      setPlot(made);
    }, notifyFailure);
    return () => {
      left = true;
      made?.destroy();
    };
  }, []);

  const found = source.curves(metric.key).value;
  const curves = found?.filter(({ run }) => !hidden.includes(run)) ?? [];
  const lines = linesOf(curves, runs, axis, log);
  const key = JSON.stringify([axis, range, log, smooth, baseline, hidden, dark.value]);
  useEffect(() => {
    if (!plot || found === null) return;
    const [run] = runs;
    const drawing = {
      ...{ lines, axis, log, smooth, dark: dark.value },
      range: axis === settings.axis ? range : { from: null, to: null },
      baseline: baseline === null ? null : runs.findIndex(({ id }) => id === baseline),
      attempts: run && runs.length === 1 ? attemptMarks(attempts, curves[0], axis, run) : [],
    };
    plot.draw(drawing);
    plot.focus(hovered.peek());
  }, [plot, found, key, attempts, runs]);
  useEffect(() => hovered.subscribe((run) => plot?.focus(run)), [plot]);

  const shown = lines.reduce((sum, line) => sum + line.shown, 0);
  const total = lines.reduce((sum, line) => sum + line.total, 0);
  const odd = lines.reduce((sum, line) => sum + line.odd.length, 0);
  const undrawn = lines.reduce((sum, { ys }) => sum + ys.filter((y) => y === null).length, 0) - odd;
  return (
    <>
      <div ref={element} class="plot" role="img" aria-label={`Curves of ${metric.name}`}>
        {found === null && <p class="quiet">Loading…</p>}
      </div>
      <p class="chart-foot">
        <ReadText read={read} runs={runs} axis={axis} smooth={smooth} />
        <span class="quiet">
          {axis !== settings.axis && "by time · "}
          {odd > 0 && `${count(odd)} not finite · `}
          {undrawn > 0 && `${count(undrawn)} not above 0 · `}
          {shown === total
            ? total === 1
              ? "1 point"
              : `${count(total)} points`
            : `${count(shown)} of ${count(total)} points`}
        </span>
      </p>
    </>
  );
}

interface ReadProps {
  read: Signal<Read | null>;
  runs: Run[];
  axis: Axis;
  smooth: number;
}

function ReadText({ read, runs, axis, smooth }: ReadProps): JSX.Element {
  const at = read.value;
  if (at === null)
    return <span class="quiet">{smooth > 0 && `smoothed ${smooth}, of the points shown`}</span>;
  const name = runs.length > 1 ? (runs[at.run]?.name ?? "") : "";
  return (
    <span class="chart-read">
      <b>{short(at.y)}</b> at {axis === "step" ? short(at.x) : duration(at.x)} {name}
    </span>
  );
}
