// The lines of a log: only those in view exist. The bar beside them stands for the whole log, however long it is.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { LogLine } from "../../../api/types.ts";
import { useScroll } from "../../../parts/scroll.ts";
import { bytes, time } from "../../../parts/text.ts";
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
const AHEAD_PX = 100 * LINE_PX;
const MOST_TICKS = 200;

export function LogView({ label, source, text, chosen, ticks, follows, onFollow }: Props) {
  const shifted = useRef(source.shift);
  const version = source.version.value;
  const { lines, length } = source;
  const { scroller, look, top, height, first, end } = useScroll(LINE_PX, lines.length);

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
    look();
  }, [version, follows, height]);

  useEffect(() => {
    if (source.busy || source.worker === null) return;
    const below = lines.length * LINE_PX - top - height;
    if (top < AHEAD_PX && source.start > 0) void source.older();
    else if (below < AHEAD_PX && !source.ended) void source.newer();
  }, [version, top, height]);

  function onScroll({ currentTarget }: { currentTarget: HTMLElement }): void {
    const { scrollHeight, scrollTop, clientHeight } = currentTarget;
    look();
    onFollow(source.ended && scrollHeight - scrollTop - clientHeight < LINE_PX);
  }

  function move(to: number): void {
    onFollow(to >= length);
    if (to < length) void source.open(to);
  }

  function onKeyDown(event: KeyboardEvent): void {
    const to = { End: length, G: length, Home: 0 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    move(to);
    event.preventDefault();
  }

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

function Line({ line, text, chosen }: { line: LogLine; text: string; chosen: boolean }) {
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
