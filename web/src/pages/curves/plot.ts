// The lines of one chart, drawn by uPlot: their look, the marks above them, zooming, and what the pointer is on.

import { type Signal, signal } from "@preact/signals";
import uPlot from "uplot";
import { duration } from "../../parts/amounts.ts";
import { short } from "../../parts/values.ts";
import { setQuery } from "../../state/place.ts";
import { type Axis, curveColour, isDashed, type Line, type Mark, smoothed } from "./points.ts";
import type { Settings } from "./view.tsx";

export interface Drawing extends Settings {
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
export const dark = signal(scheme.matches);
scheme.addEventListener("change", () => (dark.value = scheme.matches));

/** A plot that fills an element; what is drawn later replaces its data. */
export function plotIn(parent: HTMLElement, last: { readonly current: Drawing }): uPlot {
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
export function dataOf({ lines, smooth }: Drawing): uPlot.AlignedData {
  return uPlot.join(lines.map((line) => [line.xs, line.ys, ...(smooth > 0 ? [smoothed(line, smooth)] : [])]));
}

function optionsOf(parent: HTMLElement, last: { readonly current: Drawing }): uPlot.Options {
  const { axis, log, smooth, baseline, lines } = last.current;
  const ink = colour(parent, "var(--faint)");
  const grid = { stroke: colour(parent, "var(--line)"), width: 1 };
  const font = `11px ${getComputedStyle(parent).fontFamily}`;
  const look = { stroke: ink, grid, ticks: { ...grid, size: 4 }, font, gap: 3 };
  const text = axis === "time" ? duration : short;
  const colours = lines.map((_, run) => colour(parent, curveColour(run)));
  const series = lines.flatMap(({ run }, index): uPlot.Series[] => {
    const line = { stroke: colours[index] ?? ink, dash: isDashed(index) ? [6, 3] : [] };
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
