// What is in view of many rows of one height: only those exist. Used by tables and logs.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

const SPARE_PX = 300;

/** An element that scrolls, the size of its view, and which of so many rows are in it or near. */
export function useScroll(rowPx: number, total: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, width: 1000, height: 600 });
  function look(): void {
    const element = scroller.current;
    if (element)
      setView({ top: element.scrollTop, width: element.clientWidth, height: element.clientHeight });
  }
  useLayoutEffect(() => {
    const observer = new ResizeObserver(look);
    if (scroller.current) observer.observe(scroller.current);
    look();
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor((view.top - SPARE_PX) / rowPx));
  const end = Math.min(total, Math.ceil((view.top + view.height + SPARE_PX) / rowPx));
  return { scroller, look, ...view, first, end };
}
