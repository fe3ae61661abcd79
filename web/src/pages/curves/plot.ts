// Draws the lines of one chart with uPlot, which is loaded with this module when the first chart is in view.

import uPlot from "uplot";
import { duration } from "../../parts/amounts.ts";
import { type Axis, curveColour, isDashed, type Line, type Range, short, smoothed } from "./points.ts";

export interface Drawing {
  lines: Line[];
  axis: Axis;
  range: Range;
  log: boolean;
  /** The weight of the past, from 0 (not smoothed) to below 1. */
  smooth: number;
  /** The run whose line is drawn thick. */
  baseline: number | null;
  attempts: { number: number; x: number }[];
  dark: boolean;
}

/** What the pointer is on. */
export interface Read {
  run: number;
  x: number;
  y: number;
}

interface Listeners {
  onZoom: (range: Range) => void;
  onHover: (run: number | null) => void;
  onRead: (read: Read | null) => void;
}

const HEIGHT_PX = 176;
const NEAR_PX = 24;
const FAINT = 0.25;
const MARKS = { nan: "×", inf: "▲", "-inf": "▼" };
const NO_RANGE: Range = { from: null, to: null };

export class Plot {
  #plot: uPlot | null = null;
  #shape = "";
  #drawing: Drawing | null = null;
  #focused: number | null = null;
  readonly #element: HTMLElement;
  readonly #on: Listeners;
  readonly #resized: ResizeObserver;

  constructor(element: HTMLElement, on: Listeners) {
    this.#element = element;
    this.#on = on;
    this.#resized = new ResizeObserver(() => {
      this.#plot?.setSize({ width: element.clientWidth, height: HEIGHT_PX });
    });
    this.#resized.observe(element);
  }

  draw(drawing: Drawing): void {
    this.#drawing = drawing;
    const { axis, log, smooth, baseline, lines, dark } = drawing;
    const shape = JSON.stringify([axis, log, smooth > 0, baseline, lines.length, dark]);
    const data = dataOf(drawing);
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#shape = shape;
    this.#plot = new uPlot(this.#options(drawing), data, this.#element);
  }

  /** Let the line of a run stand out; null: all alike. */
  focus(run: number | null): void {
    this.#focused = run;
    const plot = this.#plot;
    const drawing = this.#drawing;
    if (!plot || !drawing) return;
    const place = run === null ? null : run + 1 + (drawing.smooth > 0 ? drawing.lines.length : 0);
    plot.setSeries(place, { focus: true }, false);
  }

  destroy(): void {
    this.#resized.disconnect();
    this.#plot?.destroy();
  }

  #options({ axis, log, smooth, baseline, lines }: Drawing): uPlot.Options {
    const one = lines.length === 1;
    const ink = this.#colour("var(--faint)");
    const grid = { stroke: this.#colour("var(--line)"), width: 1 };
    const font = `11px ${getComputedStyle(this.#element).fontFamily}`;
    const look = { stroke: ink, grid, ticks: { ...grid, size: 4 }, font, gap: 3 };
    const seriesOf = (run: number, faint: boolean): uPlot.Series => ({
      stroke: this.#colour(curveColour(run)).replace(/^rgb\((.*)\)$/, `rgba($1, ${faint ? FAINT : 1})`),
      width: faint ? 1 : run === baseline ? 3 : 1.5,
      dash: isDashed(run) ? [6, 3] : [],
      points: faint ? { show: false } : { size: 4 },
    });
    const runs = lines.map(({ run }) => run);
    const behind = smooth > 0 ? runs.map((run) => seriesOf(run, true)) : [];
    const numbers = (_: uPlot, splits: (number | null)[]) => splits.map(short);
    return {
      width: this.#element.clientWidth,
      height: HEIGHT_PX,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      focus: { alpha: one ? 1 : 0.2 },
      cursor: {
        y: false,
        sync: { key: `curves-${axis}`, setSeries: false, scales: ["x", null] },
        hover: { skip: [undefined, null] },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.#whole() },
      },
      scales: {
        x: { time: false, range: (_, min, max) => this.#ends(min, max) },
        y: { distr: log ? 3 : 1 },
      },
      axes: [
        { ...look, size: 24, values: axis === "time" ? (_, splits) => splits.map(duration) : numbers },
        { ...look, size: 54, ...(log ? {} : { values: numbers }) },
      ],
      series: [{}, ...behind, ...runs.map((run) => seriesOf(run, false))],
      hooks: {
        draw: [(plot) => this.#drawOdd(plot), (plot) => this.#drawAttempts(plot, ink)],
        setSelect: [(plot) => this.#zoom(plot)],
        setCursor: [(plot) => this.#read(plot)],
      },
    };
  }

  /** A colour of the style as the canvas needs it. */
  #colour(value: string): string {
    this.#element.style.color = value;
    return getComputedStyle(this.#element).color;
  }

  #ends(min: number, max: number): [number, number] {
    const { from, to } = this.#drawing?.range ?? NO_RANGE;
    const first = from ?? min ?? 0;
    const last = to ?? max ?? 1;
    return first < last ? [first, last] : [first - 1, first + 1];
  }

  #whole(): null {
    this.#on.onZoom(NO_RANGE);
    return null;
  }

  #zoom(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const [from, to] = [left, left + width]
      .map((at) => plot.posToVal(at, "x"))
      .map((value) => (this.#drawing?.axis === "step" ? Math.round(value) : Number(value.toFixed(1))));
    this.#on.onZoom({ from: from ?? null, to: to ?? null });
  }

  /** Tell what is under the pointer. The nearest line counts where the pointer is; other charts follow its run. */
  #read(plot: uPlot): void {
    const { left = -1, top = 0, idxs, event } = plot.cursor;
    const { lines, smooth } = this.#drawing ?? { lines: [], smooth: 0 };
    const points = lines.flatMap(({ run }): Read[] => {
      const place = run + 1 + (smooth > 0 ? lines.length : 0);
      const at = idxs?.[place] ?? -1;
      const [x, y] = left >= 0 ? [plot.data[0][at], plot.data[place]?.[at]] : [];
      return x === undefined || y === null || y === undefined ? [] : [{ run, x, y }];
    });
    if (event && lines.length > 1) {
      const away = ({ y }: Read) => Math.abs(plot.valToPos(y, "y") - top);
      const [nearest] = points
        .filter((each) => away(each) < NEAR_PX)
        .sort((one, other) => away(one) - away(other));
      if ((nearest?.run ?? null) !== this.#focused) this.#on.onHover(nearest?.run ?? null);
    }
    const shown = lines.length > 1 ? this.#focused : 0;
    this.#on.onRead(points.find(({ run }) => run === shown) ?? null);
  }

  /** Marks at the border where values are not finite. */
  #drawOdd(plot: uPlot): void {
    for (const { run, odd } of this.#drawing?.lines ?? []) {
      for (const { x, value } of odd) {
        this.#mark(plot, x, this.#colour(curveColour(run)), ({ ctx, bbox }, at) => {
          const up = value === "inf";
          ctx.textAlign = "center";
          ctx.textBaseline = up ? "top" : "bottom";
          ctx.fillText(MARKS[value], at, up ? bbox.top : bbox.top + bbox.height);
        });
      }
    }
  }

  #drawAttempts(plot: uPlot, ink: string): void {
    for (const { number, x } of this.#drawing?.attempts ?? []) {
      this.#mark(plot, x, ink, ({ ctx, bbox }, at) => {
        ctx.setLineDash([4, 3]);
        ctx.beginPath();
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bbox.top + bbox.height);
        ctx.stroke();
        ctx.textBaseline = "top";
        ctx.fillText(`attempt ${number}`, at + 4, bbox.top);
      });
    }
  }

  #mark(plot: uPlot, x: number, colour: string, draw: (plot: uPlot, at: number) => void): void {
    const { ctx, bbox } = plot;
    const at = plot.valToPos(x, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) return;
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px sans-serif`;
    ctx.strokeStyle = ctx.fillStyle = colour;
    draw(plot, at);
    ctx.restore();
  }
}

/** Lines on one axis. A null is a gap; where a line has no point of another, there is none. */
function dataOf({ lines, smooth }: Drawing): uPlot.AlignedData {
  const tables = lines.map((line): uPlot.AlignedData => {
    const series = smooth > 0 ? [line.ys, smoothed(line, smooth)] : [line.ys];
    return [line.xs, ...series];
  });
  const joined = uPlot.join(
    tables,
    tables.map((table) => table.map(() => 1)),
  );
  if (smooth === 0) return joined;
  const [xs, ...series] = joined;
  return [xs, ...series.filter((_, at) => at % 2 === 0), ...series.filter((_, at) => at % 2 === 1)];
}
