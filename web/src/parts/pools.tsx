// Links to the pools of a page, with a number for each.

import type { ComponentChildren, JSX } from "preact";
import { withQuery } from "../state/place.ts";
import { count } from "./amounts.ts";

interface Pool {
  cluster: string;
  pool: string;
}

/** The name of a pool: with its cluster, except where all have the same. */
export function poolName({ cluster, pool }: Pool, among: Pool[] | null = null): string {
  return among?.every((each) => each.cluster === cluster) ? pool : `${cluster}/${pool}`;
}

interface Props {
  pools: (Pool & { total: number })[];
  chosen: string | null;
  /** What is before them. */
  children?: ComponentChildren;
}

export function PoolTabs({ pools, chosen, children }: Props): JSX.Element {
  return (
    <nav class="tabs" aria-label="Pools">
      {children}
      {pools.map((each) => {
        const key = poolName(each);
        const href = withQuery({ pool: key, node: null });
        return (
          <a key={key} href={href} aria-current={key === chosen ? "page" : undefined}>
            {poolName(each, pools)} <span class="quiet">{count(each.total)}</span>
          </a>
        );
      })}
    </nav>
  );
}
