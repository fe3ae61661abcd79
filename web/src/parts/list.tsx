// Pages and lists: a page's title, its parts, and lists that one question answers, with the changes to their rows.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Answer, Details, Operation } from "../api/request.ts";
import type { Action } from "../api/types.ts";
import { useAnswer } from "../state/answer.ts";
import { withQuery } from "../state/place.ts";
import { may } from "../state/session.ts";
import { Menu } from "./controls.tsx";
import { type Form, FormButton } from "./form.tsx";
import type { Words } from "./shell.ts";
import { Command, Problem } from "./shown.tsx";
import { count } from "./text.ts";

/** A column: its title, its cell, and whether it is to the right, or left out on narrow screens. */
export type Cell<Row> = [title: string, cell: (row: Row) => ComponentChildren, kind?: "right" | "wide"];

type RowOf<K extends Operation> = Answer<K> extends (infer Row)[] ? Row : never;

interface Props<K extends Operation, Row> extends Pick<Details<K>, "path" | "query"> {
  title: string;
  /** Whether the title is shown, where the page has another. */
  heading?: boolean;
  operation: K;
  everyMs?: number;
  /** Ask again when any run changes. */
  runs?: "all";
  /** Its rows, where the answer is not a list of them. */
  rows?: (answer: Answer<K>) => Row[];
  columns: Cell<Row>[];
  command: Words;
  /** What is said where there are no rows. */
  empty?: string;
  /** What a person must be allowed for the changes below. */
  action?: Action;
  forms?: Form[];
  formsOf?: ((row: Row) => Form[]) | undefined;
}

export function List<K extends Operation, Row = RowOf<K>>(props: Props<K, Row>) {
  const { title, heading = true, operation, columns, command, empty, action, ...others } = props;
  const { forms, formsOf, rows = (answer) => answer as unknown as Row[], ...details } = others;
  const { data, problem } = useAnswer<K>(operation, details as Details<K>);
  const allowed = action === undefined || may(action);
  const changes = (row: Row) => {
    const buttons = formsOf?.(row).map((form) => <FormButton key={form.verb} form={form} class="" />);
    return (
      buttons?.length && (
        <Menu label="⋯" name="Changes" class="quiet">
          {buttons}
        </Menu>
      )
    );
  };
  return (
    <section class="list">
      {heading && (
        <h2>
          {title}
          {allowed && forms?.map((form) => <FormButton key={form.verb} form={form} />)}
        </h2>
      )}
      {problem && <Problem problem={problem} />}
      {data && (
        <Rows
          label={title}
          columns={allowed && formsOf ? [...columns, ["", changes, "right"]] : columns}
          rows={rows(data)}
          empty={empty}
        />
      )}
      <Command of={command} />
    </section>
  );
}

interface RowsProps<Row> {
  label: string;
  columns: Cell<Row>[];
  rows: Row[];
  empty?: string | undefined;
}

/** Rows that are all here, as a plain table. */
export function Rows<Row>({ label, columns, rows, empty = "There is none." }: RowsProps<Row>) {
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
  /** Beside the title: how many there are. */
  sum?: ComponentChildren;
  bar?: ComponentChildren;
  children: ComponentChildren;
}

/** A page: its title, what is beside that, and its content. */
export function Page({ title, sum, bar, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · tarmac`;
  }, [title]);
  return (
    <article class="page">
      <div class="bar">
        <h1>
          {title} {sum !== undefined && <span class="quiet">{sum}</span>}
        </h1>
        {bar}
      </div>
      {children}
    </article>
  );
}

/** A page that scrolls as a whole. */
export function Sheet({ children, ...page }: PageProps) {
  return (
    <Page {...page}>
      <div class="sheet">{children}</div>
    </Page>
  );
}

/** A link that says whether it leads to what is shown. */
export function Tab({ href, on, children }: { href: string; on: boolean; children: ComponentChildren }) {
  return (
    <a href={href} aria-current={on ? "page" : undefined}>
      {children}
    </a>
  );
}

type Title = string | [title: string, ...unknown[]];

/** Links to the parts of a page: their titles by their paths. */
export function Tabs({ of, tabs, chosen }: { of: string; tabs: Record<string, Title>; chosen: string }) {
  return (
    <nav class="tabs" aria-label="Parts of the page">
      {Object.entries(tabs).map(([name, title]) => (
        <Tab key={name} href={name ? `${of}/${name}` : of} on={name === chosen}>
          {typeof title === "string" ? title : title[0]}
        </Tab>
      ))}
    </nav>
  );
}

interface Pool {
  cluster: string;
  pool: string;
}

/** The name of a pool: with its cluster, except where all have the same. */
export function poolName({ cluster, pool }: Pool, among: Pool[] | null = null): string {
  return among?.every((each) => each.cluster === cluster) ? pool : `${cluster}/${pool}`;
}

interface PoolTabsProps {
  pools: (Pool & { total: number })[];
  chosen: string | null;
  /** Whether all of them may be chosen. */
  all?: boolean;
}

/** Links to the pools of a page, with a number for each. */
export function PoolTabs({ pools, chosen, all = false }: PoolTabsProps) {
  const to = (pool: string | null) => ({ href: withQuery({ pool, node: null }), on: pool === chosen });
  return (
    <nav class="tabs" aria-label="Pools">
      {all && <Tab {...to(null)}>All</Tab>}
      {pools.map((each) => (
        <Tab key={poolName(each)} {...to(poolName(each))}>
          {poolName(each, pools)} <span class="quiet">{count(each.total)}</span>
        </Tab>
      ))}
    </nav>
  );
}
