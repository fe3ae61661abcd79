// The lines of a log: only those in view exist. The bar beside them stands for the whole log, however long it is.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { LogLine } from "../../../api/types.ts";
import { bytes, time } from "../../../parts/amounts.ts";
import { withQuery } from "../../../state/place.ts";
import type { LogSource } from "./source.ts";
import { HUES, marked, partsOf } from "./text.ts";

interface Props {
  label: string;
  source: LogSource;
  text: string; // a search, whose places are marked
  chosen: number | null; // the offset of the line that the place names
  ticks: number[]; // offsets that the bar shows
  follows: boolean;
  onFollow: (follows: boolean) => void;
}

const LINE_PX = 18;
const SPARE_LINES = 20;
const AHEAD_PX = 100 * LINE_PX;
const MOST_TICKS = 200;

export function LogView({ label, source, text, chosen, ticks, follows, onFollow }: Props): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const shifted = useRef(source.shift);
  const [height, setHeight] = useState(600);
  const [top, setTop] = useState(0);
  const version = source.version.value;
  const { lines, length } = source;

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const moved = source.shift - shifted.current;
    shifted.current = source.shift;
    if (source.target !== null) {
      const found = lines.findIndex(({ offset }) => offset >= (source.target ?? 0));
      element.scrollTop = ((found < 0 ? lines.length : found) - height / LINE_PX / 3) * LINE_PX;
      source.target = null;
    } else if (follows) element.scrollTop = element.scrollHeight;
    else if (moved !== 0) element.scrollTop += moved * LINE_PX;
    setTop(element.scrollTop);
  }, [version, follows, height]);

  useEffect(() => {
    if (source.busy || source.worker === null) return;
    const below = lines.length * LINE_PX - top - height;
    if (top < AHEAD_PX && source.start > 0) void source.older();
    else if (below < AHEAD_PX && !source.ended) void source.newer();
  }, [version, top, height]);

  function onScroll(): void {
    const element = scroller.current;
    if (!element) return;
    setTop(element.scrollTop);
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    onFollow(source.ended && below < LINE_PX);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "End" || event.key === "G") onFollow(true);
    else if (event.key === "Home") {
      onFollow(false);
      void source.open(0);
    } else return;
    event.preventDefault();
  }

  function move(to: number): void {
    onFollow(to >= length);
    if (to < length) void source.open(to);
  }

  const first = Math.max(0, Math.floor(top / LINE_PX) - SPARE_LINES);
  const end = Math.min(lines.length, Math.ceil((top + height) / LINE_PX) + SPARE_LINES);
  source.place = lines[Math.floor(top / LINE_PX)]?.offset ?? source.start;
  const place = follows ? length : source.place;
  const marks = new Set(ticks.map((offset) => Math.round((offset / Math.max(1, length)) * MOST_TICKS)));
  return (
    <div class="log-frame">
      <div
        ref={scroller}
        class="log"
        role="region"
        aria-label={label}
        tabIndex={0}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        <div class="log-lines" style={{ height: `${lines.length * LINE_PX}px` }}>
          <div class="log-drawn" style={{ transform: `translateY(${first * LINE_PX}px)` }}>
            {lines.slice(first, end).map((line) => (
              <Line key={line.offset} line={line} text={text} chosen={line.offset === chosen} />
            ))}
          </div>
        </div>
      </div>
      <div class="log-rail">
        <input
          type="range"
          aria-label="Place in the log"
          aria-valuetext={`${bytes(place)} of ${bytes(length)}`}
          min={0}
          max={Math.max(1, length)}
          step={Math.max(1, Math.floor(length / 1000))}
          value={place}
          onInput={({ currentTarget }) => move(Number(currentTarget.value))}
        />
        {[...marks].map((mark) => (
          <span key={mark} class="log-tick" style={{ top: `${(mark / MOST_TICKS) * 100}%` }} />
        ))}
      </div>
    </div>
  );
}

function Line({ line, text, chosen }: { line: LogLine; text: string; chosen: boolean }): JSX.Element {
  return (
    <div class="log-line" data-chosen={chosen ? "" : undefined}>
      <a
        class="log-link"
        href={withQuery({ at: String(line.offset) })}
        tabIndex={-1}
        aria-label="Link to this line"
        title="Copy a link to this line"
        onClick={({ currentTarget }) =>
          void navigator.clipboard?.writeText(currentTarget.href).catch(() => undefined)
        }
      >
        {line.at === null ? "" : time(line.at).slice(5)}
      </a>
      <span class="log-text">
        {marked(partsOf(line.text), text).map((part, index) => {
          const Shown = part.marked ? "mark" : "span";
          const hue = HUES[Number(/colour-(\d)/.exec(part.kind)?.[1])];
          return (
            <Shown key={index} class={part.kind} style={hue ? { "--hue": `var(--${hue})` } : {}}>
              {part.text}
            </Shown>
          );
        })}
      </span>
    </div>
  );
}
