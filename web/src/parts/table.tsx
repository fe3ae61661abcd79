// A table of any length: only the rows in view exist. Columns that do not fit give way, the least important first.
//
// The whole table is one stop of the Tab key; arrows, j and k move in it, Enter opens a row, x or Space selects it.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  id: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Width in pixels; a column with `grows` takes what is left. */
  width: number;
  grows?: boolean;
  /** Columns with a higher number give way first where the table is narrow. */
  rank: number;
  right?: boolean;
  /** The field to sort by. */
  sort?: string;
}

/** A column that sorts by the field of its id. */
export function column<Row>(
  id: string,
  title: string,
  width: number,
  rank: number,
  cell: Column<Row>["cell"],
  more: Partial<Column<Row>> = {},
): Column<Row> {
  return { id, title, width, rank, cell, sort: id, ...more };
}

export interface Rows<Row> {
  total: number;
  /** The row at a place, once it has been read. */
  at: (index: number) => Row | undefined;
  /** Told of the places in view: rows there should be read. */
  view: (first: number, end: number) => void;
}

export interface Selection<Row> {
  /** Whether all rows are selected, also those that have not been read. */
  every: boolean;
  has: (row: Row) => boolean;
  toggle: (row: Row) => void;
  /** Select all rows between two places. */
  range: (from: number, to: number) => void;
  all: () => void;
  none: () => void;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Rows<Row>;
  keyOf: (row: Row) => string;
  /** The link that a row opens. */
  href: (row: Row) => string;
  open: (href: string) => void;
  sort?: string;
  onSort?: (sort: string) => void;
  selection?: Selection<Row>;
  /** Move a row to another place, by dragging or Alt and an arrow; whether it was moved. */
  onMove?: (from: number, to: number) => Promise<boolean>;
  empty: ComponentChildren;
}

const ROW_PX = 28;
const SPARE_ROWS = 8;
const SELECT_PX = 34;

export function Table<Row>(props: Props<Row>): JSX.Element {
  const { rows, selection, keyOf } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 1000, height: 600 });
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(0);
  const anchor = useRef(0);
  const [drag, setDrag] = useState<{ from: number; gap: number } | null>(null);
  const moves = useRef(false);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const columns = fitting(props.columns, size.width - (selection ? SELECT_PX : 0));
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
  const end = Math.min(rows.total, Math.ceil((top + size.height) / ROW_PX) + SPARE_ROWS);
  useEffect(() => rows.view(first, end));

  function move(to: number, extend: boolean): void {
    const next = Math.min(Math.max(0, to), rows.total - 1);
    setActive(next);
    const element = scroller.current;
    if (element) {
      const y = next * ROW_PX;
      const page = element.clientHeight - ROW_PX;
      if (y < element.scrollTop) element.scrollTop = y;
      else if (y + ROW_PX > element.scrollTop + page) element.scrollTop = y + ROW_PX - page;
    }
    if (extend) selection?.range(anchor.current, next);
    else anchor.current = next;
  }

  async function moveRow(from: number, to: number): Promise<void> {
    const place = Math.min(Math.max(0, to), rows.total - 1);
    if (moves.current || place === from || !props.onMove) return;
    moves.current = true;
    if (await props.onMove(from, place).finally(() => (moves.current = false))) move(place, false);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.target !== scroller.current) return;
    const page = Math.max(1, Math.floor(size.height / ROW_PX) - 2);
    const row = rows.at(active);
    const step: Record<string, number> = {
      ArrowDown: active + 1,
      j: active + 1,
      J: active + 1,
      ArrowUp: active - 1,
      k: active - 1,
      K: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: rows.total - 1,
    };
    const to = event.ctrlKey || event.metaKey || event.altKey ? undefined : step[event.key];
    if (to !== undefined) move(to, event.shiftKey);
    else if (event.altKey && /^Arrow(Up|Down)$/.test(event.key) && props.onMove)
      void moveRow(active, active + (event.key === "ArrowUp" ? -1 : 1));
    else if (event.key === "Enter" && row) props.open(props.href(row));
    else if ((event.key === "x" || event.key === " ") && row && selection) selection.toggle(row);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey) && selection) selection.all();
    else if (event.key === "Escape" && selection) selection.none();
    else return;
    event.preventDefault();
  }

  const tracks = columns.map(({ width, grows }) => (grows ? `minmax(${width}px, 1fr)` : `${width}px`));
  const template = [...(selection ? [`${SELECT_PX}px`] : []), ...tracks].join(" ");
  const shown = Array.from({ length: Math.max(0, end - first) }, (_, offset) => first + offset);
  return (
    <div
      ref={scroller}
      class="table"
      role="grid"
      aria-label={props.label}
      aria-rowcount={rows.total + 1}
      aria-multiselectable={selection ? true : undefined}
      aria-activedescendant={rows.total > 0 ? `row-${active}` : undefined}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <Head {...props} columns={columns} template={template} />
      {rows.total === 0 && <div class="table-empty">{props.empty}</div>}
      <div class="table-rows" role="rowgroup" style={{ height: `${rows.total * ROW_PX}px` }}>
        {shown.map((index) => {
          const row = rows.at(index);
          const selected = row !== undefined && (selection?.has(row) ?? false);
          return (
            <div
              key={row === undefined ? index : keyOf(row)}
              id={`row-${index}`}
              class="table-row"
              role="row"
              aria-rowindex={index + 2}
              aria-selected={selection ? selected : undefined}
              data-active={index === active ? "" : undefined}
              style={{ gridTemplateColumns: template, transform: `translateY(${index * ROW_PX}px)` }}
              onMouseDown={() => setActive(index)}
              draggable={props.onMove && row !== undefined ? true : undefined}
              data-drop={drag?.gap === index ? "before" : drag?.gap === index + 1 ? "after" : undefined}
              onDragStart={(event) => {
                event.dataTransfer?.setData("text/plain", row === undefined ? "" : keyOf(row));
                setDrag({ from: index, gap: index });
              }}
              onDragOver={(event) => {
                if (!drag) return;
                event.preventDefault();
                const { top, height } = event.currentTarget.getBoundingClientRect();
                const gap = event.clientY < top + height / 2 ? index : index + 1;
                if (gap !== drag.gap) setDrag({ ...drag, gap });
              }}
              onDrop={(event) => {
                event.preventDefault();
                if (drag) void moveRow(drag.from, drag.gap > drag.from ? drag.gap - 1 : drag.gap);
              }}
              onDragEnd={() => setDrag(null)}
            >
              {selection && (
                <span role="gridcell" class="table-select">
                  <input
                    type="checkbox"
                    tabIndex={-1}
                    checked={selected}
                    disabled={row === undefined}
                    aria-label="Select"
                    onClick={(event) => {
                      if (event.shiftKey) selection.range(anchor.current, index);
                      else if (row) selection.toggle(row);
                      anchor.current = index;
                    }}
                  />
                </span>
              )}
              {columns.map((column) => (
                <span key={column.id} role="gridcell" class={column.right ? "cell right" : "cell"}>
                  {row === undefined ? <span class="pending" /> : column.cell(row)}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Head<Row>(props: Props<Row> & { template: string }): JSX.Element {
  const { columns, template, sort, onSort, selection } = props;
  return (
    <div class="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
      {selection && (
        <span role="columnheader" class="table-select" tabIndex={-1}>
          <input
            type="checkbox"
            tabIndex={-1}
            checked={selection.every}
            aria-label="Select all"
            onChange={selection.every ? selection.none : selection.all}
          />
        </span>
      )}
      {columns.map((column) => {
        const direction =
          sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : "none";
        const next = direction === "descending" ? column.sort : `-${column.sort}`;
        return (
          <span
            key={column.id}
            role="columnheader"
            tabIndex={-1}
            class={column.right ? "cell right" : "cell"}
            aria-sort={column.sort ? direction : undefined}
          >
            {column.sort && onSort ? (
              <button type="button" class="sort" onClick={() => onSort(next ?? "")}>
                {column.title}
                <span aria-hidden="true">
                  {direction === "ascending" ? "↑" : direction === "descending" ? "↓" : ""}
                </span>
              </button>
            ) : (
              column.title
            )}
          </span>
        );
      })}
    </div>
  );
}

/** The columns that fit into a width: those with the lowest ranks, in their order. */
function fitting<Row>(columns: Column<Row>[], width: number): Column<Row>[] {
  const chosen = new Set<Column<Row>>();
  let left = width;
  for (const column of [...columns].sort((one, other) => one.rank - other.rank)) {
    left -= column.width;
    if (left < 0 && chosen.size > 0) break;
    chosen.add(column);
  }
  return columns.filter((column) => chosen.has(column));
}
