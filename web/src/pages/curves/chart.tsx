// One chart: a metric of all runs, drawn by uPlot while it is in view, with marks, zooming, and what the pointer is on.

import { type Signal, signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Attempt, Run } from "../../api/types.ts";
import { count, duration, short } from "../../parts/text.ts";
import { setQuery } from "../../state/place.ts";
import type { Axis, Line, Mark, Metric } from "./points.ts";
import * as points from "./points.ts";
import type { CurveSource } from "./source.ts";
import type { Settings } from "./view.tsx";

interface Props {
  metric: Metric;
  runs: Run[];
  attempts: Attempt[];
  source: CurveSource;
  settings: Settings;
}

export function Chart(props: Props) {
  const { metric, source, settings } = props;
  const axis = points.axisOf(metric, settings.axis);
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
function Shown(props: Props & { byTime: boolean }) {
  const { metric, runs, attempts, source, settings, byTime } = props;
  const { axis, from, to, log, smooth, baseline, hidden } = settings;
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const read = useSignal("");
  const found = source.curves.value.get(metric.key)?.curves;
  const lines = useMemo(() => {
    const shown = found?.filter(({ run }) => !hidden.includes(run)) ?? [];
    return points.linesOf(shown, runs, axis, log);
  }, [found, runs, axis, log, hidden.join()]);
  const marks = useMemo(() => {
    const [run] = runs;
    return run && found?.[0] && runs.length === 1 ? points.marksOf(attempts, found[0], axis, run) : [];
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
      <p class="row chart-foot">
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

interface Drawing extends Settings {
  lines: Line[];
  marks: Mark[];
  /** Becomes what the pointer is on. */
  read: Signal<string>;
}

const HEIGHT_PX = 176;
const NEAR_PX = 24;

/** The place of the run that the pointer is on, in any chart. */
export const hovered: Signal<number | null> = signal(null);

const scheme = matchMedia("(prefers-color-scheme: dark)");
/** Whether the system is dark. */
const dark = signal(scheme.matches);
scheme.addEventListener("change", () => (dark.value = scheme.matches));

/** A plot that fills an element; what is drawn later replaces its data. */
function plotIn(parent: HTMLElement, last: { readonly current: Drawing }): uPlot {
  const made = new uPlot(optionsOf(parent, last), dataOf(last.current), parent);
  const leave = hovered.subscribe((run) => {
    made.setSeries(seriesOf(last.current, run), { focus: true }, false);
    read(made, last.current);
  });
  const resized = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT_PX }));
  resized.observe(parent);
  made.hooks.destroy = [leave, () => resized.disconnect()];
  return made;
}

/** The series of a run: if lines are smoothed, the one before it has its points. */
function seriesOf({ smooth }: Drawing, run: number | null): number | null {
  return run === null ? null : smooth > 0 ? 2 * run + 2 : run + 1;
}

/** Lines on one axis. A null is a gap; where a line has no point of another, there is none. */
function dataOf({ lines, smooth }: Drawing): uPlot.AlignedData {
  return uPlot.join(
    lines.map((line) => [line.xs, line.ys, ...(smooth > 0 ? [points.smoothed(line, smooth)] : [])]),
  );
}

function optionsOf(parent: HTMLElement, last: { readonly current: Drawing }): uPlot.Options {
  const { axis, log, smooth, baseline, lines } = last.current;
  const ink = colour(parent, "var(--faint)");
  const grid = { stroke: colour(parent, "var(--line)"), width: 1 };
  const font = `11px ${getComputedStyle(parent).fontFamily}`;
  const look = { stroke: ink, grid, ticks: { ...grid, size: 4 }, font, gap: 3 };
  const text = axis === "time" ? duration : short;
  const colours = lines.map((_, run) => colour(parent, points.curveColour(run)));
  const series = lines.flatMap(({ run }, index): uPlot.Series[] => {
    const line = { stroke: colours[index] ?? ink, dash: points.isDashed(index) ? [6, 3] : [] };
    const shown = { ...line, width: run.id === baseline ? 3 : 1.5, points: { size: 4 } };
    const faint = colour(parent, `color-mix(in srgb, ${line.stroke} 25%, transparent)`);
    return smooth > 0 ? [{ ...line, stroke: faint, width: 1, points: { show: false } }, shown] : [shown];
  });
  return {
    width: parent.clientWidth,
    height: HEIGHT_PX,
    padding: [8, 10, 0, 0],
    legend: { show: false },
    focus: { alpha: lines.length === 1 ? 1 : 0.2 },
    cursor: {
      y: false,
      sync: { key: `curves-${axis}`, setSeries: false, scales: ["x", null] },
      hover: { skip: [undefined, null] },
      focus: {
        prox: NEAR_PX,
        dist: (_, at, __, y, pointer) =>
          smooth > 0 && at % 2 === 1 ? Number.POSITIVE_INFINITY : y - pointer,
      },
      drag: { setScale: false },
      bind: { dblclick: () => () => zoom(null, null) },
    },
    scales: {
      x: { time: false, range: (_, low, high) => ends(last.current, low, high) },
      y: { distr: log ? 3 : 1 },
    },
    axes: [
      { ...look, size: 24, values: (_, splits) => splits.map(text) },
      { ...look, size: 54, values: (_, splits) => splits.map(short) },
    ],
    series: [{}, ...series],
    hooks: {
      draw: [(plot) => drawMarks(plot, last.current, colours, ink)],
      setSelect: [(plot) => select(plot, axis)],
      setSeries: [(_, at) => (hovered.value = at === null ? null : Math.ceil(smooth > 0 ? at / 2 : at) - 1)],
      setCursor: [(plot) => read(plot, last.current)],
    },
  };
}

/** A colour of the style as the canvas needs it. */
function colour(parent: HTMLElement, value: string): string {
  parent.style.color = value;
  return getComputedStyle(parent).color;
}

function ends({ from, to }: Drawing, low: number | null, high: number | null): [number, number] {
  const [first, last] = [from ?? low ?? 0, to ?? high ?? 1];
  return first < last ? [first, last] : [first - 1, first + 1];
}

function zoom(from: string | null, to: string | null): null {
  setQuery({ from, to });
  return null;
}

/** Zoom to the part that was dragged over. */
function select(plot: uPlot, axis: Axis): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  const at = (px: number) => plot.posToVal(px, "x").toFixed(axis === "step" ? 0 : 1);
  zoom(at(left), at(left + width));
}

/** Tell what the pointer is on. */
function read({ cursor, data }: uPlot, drawing: Drawing): void {
  const { lines, axis } = drawing;
  const run = lines.length === 1 ? 0 : hovered.peek();
  const series = seriesOf(drawing, run) ?? -1;
  const at = cursor.idx === null ? -1 : (cursor.idxs?.[series] ?? -1);
  const [x, y] = [data[0][at], data[series]?.[at]];
  const name = lines.length > 1 ? lines[run ?? 0]?.run.name : "";
  drawing.read.value =
    x === undefined || y === undefined || y === null
      ? ""
      : `${short(y)} at ${axis === "time" ? duration(x) : x} ${name}`;
}

/** Marks at the upper border: where values are not finite, and with a line, where attempts began. */
function drawMarks(plot: uPlot, { lines, marks }: Drawing, colours: string[], ink: string): void {
  const { ctx, bbox } = plot;
  function draw({ x, text }: Mark, colour: string | undefined, attempt: boolean): void {
    const at = plot.valToPos(x, "x", true);
    ctx.fillStyle = colour ?? ink;
    ctx.textAlign = attempt ? "left" : "center";
    ctx.fillText(text, at, bbox.top);
    if (attempt) ctx.fillRect(at, bbox.top, devicePixelRatio, bbox.height);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  ctx.textBaseline = "top";
  lines.forEach(({ odd }, run) => {
    for (const mark of odd) draw(mark, colours[run], false);
  });
  for (const mark of marks) draw(mark, ink, true);
  ctx.restore();
}
