// A table of any length: only the rows in view exist. Columns that do not fit give way, the least important first.
//
// The whole table is one stop of the Tab key; arrows, j and k move in it, Enter opens a row, x or Space selects it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go, setQuery } from "../state/place.ts";
import { useScroll } from "./scroll.ts";

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

export const RIGHT = { right: true };
export const GROWS = { grows: true };

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
  /** The key of a row, if not its link. */
  keyOf?: (row: Row) => string;
  /** The link that a row opens. */
  href: (row: Row) => string;
  /** The order, which is in the place; without it the order is fixed. */
  sort?: string;
  selection?: Selection<Row>;
  /** Move a row to another place, by dragging or Alt and an arrow; whether it was moved. */
  onMove?: (from: number, to: number) => Promise<boolean>;
  empty: ComponentChildren;
}

const ROW_PX = 28;
const SELECT_PX = 34;

export function Table<Row>(props: Props<Row>) {
  const { rows, selection, keyOf = props.href, onMove } = props;
  const { scroller, look, width, height, first, end } = useScroll(ROW_PX, rows.total);
  const [active, setActive] = useState(0);
  const anchor = useRef(0);
  const [drag, setDrag] = useState<{ from: number; gap: number } | null>(null);
  const moves = useRef(false);
  const columns = fitting(props.columns, width - (selection ? SELECT_PX : 0));
  useEffect(() => rows.view(first, end));

  function move(to: number, extend: boolean): void {
    const next = Math.min(Math.max(0, to), rows.total - 1);
    setActive(next);
    const element = scroller.current;
    const lowest = next * ROW_PX; // the head takes the height of a row
    const highest = lowest - (height - 2 * ROW_PX);
    if (element) element.scrollTop = Math.min(lowest, Math.max(highest, element.scrollTop));
    if (extend) selection?.range(anchor.current, next);
    else anchor.current = next;
  }

  async function moveRow(from: number, to: number): Promise<void> {
    const place = Math.min(Math.max(0, to), rows.total - 1);
    if (moves.current || place === from || !onMove) return;
    moves.current = true;
    if (await onMove(from, place).finally(() => (moves.current = false))) move(place, false);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.target !== scroller.current) return;
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const row = rows.at(active);
    const controls = event.ctrlKey || event.metaKey;
    const key = event.key.replace(/^[jJ]$/, "ArrowDown").replace(/^[kK]$/, "ArrowUp");
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -active,
      End: rows.total,
    };
    const step = steps[key as keyof typeof steps];
    if (step !== undefined && !controls && !event.altKey) move(active + step, event.shiftKey);
    else if (event.altKey && /^Arrow(Up|Down)$/.test(event.key) && onMove && step)
      void moveRow(active, active + step);
    else if (key === "Enter" && row) go(props.href(row));
    else if ((key === "x" || key === " ") && row && selection) selection.toggle(row);
    else if (key === "a" && controls && selection) selection.all();
    else if (key === "Escape" && selection) selection.none();
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
      onScroll={look}
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
              draggable={onMove && row !== undefined ? true : undefined}
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

function Head<Row>(props: Props<Row> & { template: string }) {
  const { columns, template, sort, selection } = props;
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
        const sign = { ascending: "↑", descending: "↓", none: "" }[direction];
        const sorts = sort !== undefined && column.sort;
        return (
          <span
            key={column.id}
            role="columnheader"
            tabIndex={-1}
            class={column.right ? "cell right" : "cell"}
            aria-sort={sorts ? direction : undefined}
          >
            {sorts ? (
              <button type="button" class="sort" onClick={() => setQuery({ sort: next ?? null })}>
                {column.title}
                <span aria-hidden="true">{sign}</span>
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
