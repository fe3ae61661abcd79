// One chart: a metric of all runs, drawn while it is in view, and how many of its points are shown.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Attempt, Run } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { type Drawing, dark, dataOf, plotIn } from "./plot.ts";
import { axisOf, type Line, linesOf, type Metric, marksOf } from "./points.ts";
import type { CurveSource } from "./source.ts";
import type { Settings } from "./view.tsx";

interface Props {
  metric: Metric;
  runs: Run[];
  attempts: Attempt[];
  source: CurveSource;
  settings: Settings;
}

export function Chart(props: Props): JSX.Element {
  const { metric, source, settings } = props;
  const axis = axisOf(metric, settings.axis);
  const { from, to } = axis === settings.axis ? settings : { from: null, to: null };
  const element = useRef<HTMLElement>(null);
  const [inView, setInView] = useState(false);
  useEffect(() => {
    const see = (entries: IntersectionObserverEntry[]) => setInView(entries.at(-1)?.isIntersecting ?? false);
    const observer = new IntersectionObserver(see, { rootMargin: "150px" });
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!inView) return;
    const steps = { first_step: from && Math.floor(from), last_step: to && Math.ceil(to) };
    return source.view(metric, axis === "step" ? steps : { first_s: from, last_s: to });
  }, [inView, source, metric.key, axis, from, to]);
  return (
    <article ref={element} class="panel chart" aria-label={metric.name}>
      <h3 title={metric.name}>
        {metric.name}
        {settings.smooth > 0 && (
          <span class="hint">{` smoothed ${settings.smooth}, of the points shown`}</span>
        )}
      </h3>
      {inView && (
        <Shown {...props} settings={{ ...settings, axis, from, to }} byTime={axis !== settings.axis} />
      )}
    </article>
  );
}

/** `byTime`: the metric has no steps, so that its axis is not the one that was chosen. */
function Shown(props: Props & { byTime: boolean }): JSX.Element {
  const { metric, runs, attempts, source, settings, byTime } = props;
  const { axis, from, to, log, smooth, baseline, hidden } = settings;
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const read = useSignal("");
  const found = source.curves.value.get(metric.key)?.curves;
  const lines = useMemo(() => {
    const shown = found?.filter(({ run }) => !hidden.includes(run)) ?? [];
    return linesOf(shown, runs, axis, log);
  }, [found, runs, axis, log, hidden.join()]);
  const marks = useMemo(() => {
    const [run] = runs;
    return run && found?.[0] && runs.length === 1 ? marksOf(attempts, found[0], axis, run) : [];
  }, [attempts, found, runs, axis]);
  const drawing = { ...settings, lines, marks, read };
  const last = useRef<Drawing>(drawing);
  last.current = drawing;
  useEffect(() => {
    plot.current = element.current && plotIn(element.current, last);
    return () => plot.current?.destroy();
  }, [axis, log, smooth > 0, baseline, lines.length, dark.value]);
  useEffect(() => plot.current?.setData(dataOf(drawing)), [lines, smooth, from, to, marks]);

  const sum = (of: (line: Line) => number) => lines.reduce((total, line) => total + of(line), 0);
  const total = sum((line) => line.total);
  const shown = sum(({ xs }) => xs.length);
  const odd = sum((line) => line.odd.length);
  const undrawn = sum(({ ys }) => ys.filter((y) => y === null).length) - odd;
  return (
    <>
      <div ref={element} class="curve" role="img" aria-label={`Curves of ${metric.name}`} />
      <p class="chart-foot">
        <span>{read}</span>
        <span class="quiet">
          {byTime && "by time · "}
          {odd > 0 && `${count(odd)} not finite · `}
          {undrawn > 0 && `${count(undrawn)} not above 0 · `}
          {shown < total && `${count(shown)} of `}
          {!found ? "Loading…" : total === 1 ? "1 point" : `${count(total)} points`}
        </span>
      </p>
    </>
  );
}
