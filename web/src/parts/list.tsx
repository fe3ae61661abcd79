// A list that one question answers: its rows, the changes to each, and those to the whole; and pages of lists.

import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Answer, Operation, QueryOf } from "../api/request.ts";
import { useAnswer } from "../state/answer.ts";
import { Command } from "./command.tsx";
import { type Form, FormButton, useForm } from "./form.tsx";
import { Menu } from "./menu.tsx";
import { Problem } from "./problem.tsx";

/** A column: its title, its cell, and whether it is to the right, or left out on narrow screens. */
export type Cell<Row> = [title: string, cell: (row: Row) => ComponentChildren, kind?: "right" | "wide"];

type RowOf<K extends Operation> = Answer<K> extends (infer Row)[] ? Row : never;

interface Props<K extends Operation, Row = RowOf<K>> {
  title: string;
  /** Whether the title is shown, where the page has another. */
  heading?: boolean;
  operation: K;
  path?: Record<string, string>;
  query?: QueryOf<K>;
  everyMs?: number;
  /** Ask again when any run changes. */
  runs?: "all";
  /** Its rows, where the answer is not a list of them. */
  rows?: (answer: Answer<K>) => Row[];
  columns: Cell<Row>[];
  command: string;
  empty: string;
  forms?: Form[] | undefined;
  formsOf?: ((row: Row) => Form[]) | undefined;
}

export function List<K extends Operation, Row = RowOf<K>>(props: Props<K, Row>): JSX.Element {
  const {
    title,
    heading = true,
    operation,
    columns,
    command,
    empty,
    forms,
    formsOf,
    rows = (answer) => answer as unknown as Row[],
    ...details
  } = props;
  const { data, problem, again } = useAnswer<K>(operation, details);
  const { show, dialog } = useForm(again);
  const changes = (row: Row) => {
    const buttons = formsOf?.(row).map((form) => (
      <FormButton key={form.verb} form={form} show={show} class="" />
    ));
    return buttons?.length ? (
      <Menu label="⋯" name="Changes" class="quiet">
        {buttons}
      </Menu>
    ) : null;
  };
  const shown: Cell<Row>[] = formsOf ? [...columns, ["", changes, "right"]] : columns;
  return (
    <section class="list">
      {heading && (
        <h2>
          {title}
          {forms?.map((form) => (
            <FormButton key={form.verb} form={form} show={show} />
          ))}
        </h2>
      )}
      {problem && <Problem problem={problem} />}
      {data && <Rows label={title} columns={shown} rows={rows(data)} empty={empty} />}
      <Command text={command} />
      {dialog}
    </section>
  );
}

/** Rows that are all here, as a plain table. */
export function Rows<Row>(
  props: Pick<Props<Operation, Row>, "columns"> & { label: string; rows: Row[]; empty?: string },
): JSX.Element {
  const { label, columns, rows, empty } = props;
  if (rows.length === 0) return <p class="quiet">{empty}</p>;
  return (
    <table class="plain" aria-label={label}>
      <thead>
        <tr>
          {columns.map(([title, , kind]) => (
            <th key={title} scope="col" class={kind}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={JSON.stringify(row)}>
            {columns.map(([title, cell, kind]) => (
              <td key={title} class={kind}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface PageProps {
  title: string;
  bar?: ComponentChildren;
  children: ComponentChildren;
}

/** A page: its title, what is beside that, and its content. */
export function Page({ title, bar, children }: PageProps): JSX.Element {
  useEffect(() => {
    document.title = `${title} · tarmac`;
  }, [title]);
  return (
    <article class="page">
      <div class="bar">
        <h1>{title}</h1>
        {bar}
      </div>
      {children}
    </article>
  );
}

/** A page that scrolls as a whole. */
export function Sheet({ children, ...page }: PageProps): JSX.Element {
  return (
    <Page {...page}>
      <div class="sheet">{children}</div>
    </Page>
  );
}

/** Links to the parts of a page: their titles by their paths. */
export function Tabs(props: { of: string; tabs: Record<string, string>; chosen: string }): JSX.Element {
  const links = Object.entries(props.tabs).map(([name, title]) => {
    const href = name ? `${props.of}/${name}` : props.of;
    return (
      <a key={name} href={href} aria-current={name === props.chosen ? "page" : undefined}>
        {title}
      </a>
    );
  });
  return (
    <nav class="tabs" aria-label="Parts of the page">
      {links}
    </nav>
  );
}
