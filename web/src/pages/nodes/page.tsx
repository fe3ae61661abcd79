// All nodes, `/nodes`: a map of slots by pool, what runs where, drained nodes, and who holds slots without use.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { NodeAnswer, SlotHistory } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Command } from "../../parts/command.tsx";
import { Problem } from "../../parts/problem.tsx";
import { useAnswer } from "../../state/answer.ts";
import { now } from "../../state/clock.ts";
import { query, setQuery } from "../../state/place.ts";
import { HistoryChart } from "./chart.tsx";
import { Details } from "./details.tsx";
import { Idle, Unavailable } from "./lists.tsx";
import { pointed, SlotMap, useSame } from "./map.tsx";
import { byPool, gpuShare, idleHolders, idleRuns, type Use, useOf } from "./slots.ts";

const ASK_MS = 5_000;
const HISTORY_MS = 60_000;
const STATES = ["free", "used", "idle", "drained", "lost"] as const;
const NO_IDS: string[] = [];
const NO_NODES: NodeAnswer[] = [];

export function NodesPage(): JSX.Element {
  useEffect(() => {
    document.title = "Nodes · tarmac";
  }, []);
  const { data, problem, again } = useAnswer("GET /nodes", { everyMs: ASK_MS, runs: "all" });
  const { data: measured } = useAnswer("GET /utilization", { everyMs: ASK_MS });
  const { data: history } = useAnswer("GET /usage/history", { everyMs: HISTORY_MS });
  const use = useMemo(() => useOf(measured ?? []), [measured]);
  const [ids = NO_IDS] = useSame(useMemo(() => [idleRuns(use, now.peek())], [use]));
  const idle = useMemo(() => new Set(ids), [ids]);
  const nodes = useSame(data ?? NO_NODES);
  if (problem && !data) return <Problem problem={problem} />;
  if (!data) return <p class="loading">Loading…</p>;
  const pools = byPool(nodes);
  const alone = new Set(nodes.map(({ cluster }) => cluster)).size === 1;
  const title = (key: string) => (alone ? key.slice(key.indexOf("/") + 1) : key);
  const pool = query.value.get("pool");
  const shown = pool !== null && pools.has(pool) ? new Map([[pool, pools.get(pool) ?? []]]) : pools;
  const names = query.value.getAll("node");
  const chosen = nodes.filter(({ name }) => names.includes(name));
  function choose(name: string, adds: boolean): void {
    const names = query.peek().getAll("node"); // boxes keep this function while they stay the same
    const others = names.filter((each) => each !== name);
    const next = names.includes(name) ? others : [...others, name];
    setQuery(
      { node: adds ? next : names.includes(name) && names.length === 1 ? null : name },
      { replace: true },
    );
  }
  const members = [...shown.values()].flat();
  return (
    <section class="page">
      <div class="bar">
        <h1>
          Nodes{" "}
          <span class="quiet">
            {count(nodes.length)}, {usedText(members)}
          </span>
        </h1>
        <ul class="legend">
          {STATES.map((state) => (
            <li key={state}>
              <span class={`slot slot-${state}`} /> {state}
            </li>
          ))}
        </ul>
        <Pointed />
      </div>
      <nav class="tabs" aria-label="Pools">
        <a href="/nodes" aria-current={pool === null ? "page" : undefined}>
          All
        </a>
        {[...pools].map(([key, each]) => (
          <a
            key={key}
            href={`/nodes?${new URLSearchParams({ pool: key })}`}
            aria-current={key === pool ? "page" : undefined}
          >
            {title(key)} <span class="quiet">{count(each.length)}</span>
          </a>
        ))}
      </nav>
      <div class="columns">
        <div class="main-column">
          {[...shown].map(([key, each]) => (
            <section key={key} class="pool">
              <PoolHead
                name={title(key)}
                nodes={each}
                use={use}
                history={history?.find(({ cluster, pool: name }) => `${cluster}/${name}` === key)}
              />
              <SlotMap nodes={each} idle={idle} chosen={names} onChoose={choose} />
            </section>
          ))}
          {nodes.length === 0 && <p class="quiet">No cluster has reported a node yet.</p>}
          <Command text={pool === null ? "tarmac nodes" : `tarmac nodes --pool ${pool.split("/")[1]}`} />
        </div>
        {chosen.length > 0 ? (
          <Details nodes={chosen} use={use} onClose={() => setQuery({ node: null })} onChange={again} />
        ) : (
          <aside class="facts">
            <Idle holders={idleHolders(members, idle)} />
            <Unavailable nodes={members} />
            <p class="quiet">Choose a node to see what runs there; Shift adds more.</p>
          </aside>
        )}
      </div>
    </section>
  );
}

function Pointed(): JSX.Element {
  return <p class="pointed quiet">{pointed.value}</p>;
}

interface HeadProps {
  name: string;
  nodes: NodeAnswer[];
  use: Use;
  history: SlotHistory | undefined;
}

function PoolHead({ name, nodes, use, history }: HeadProps): JSX.Element {
  const [used, slots] = amountsOf(nodes);
  const busy = gpuShare(nodes, use);
  return (
    <div class="pool-head">
      <h2>{name}</h2>
      <Bar share={slots > 0 ? used / slots : 0} label={usedText(nodes)} />
      <span class="quiet">
        {usedText(nodes)}
        {busy !== null && `, GPUs ${Math.round(busy * 100)} % busy`}
      </span>
      {history && <span class="quiet history">24 h</span>}
      {history && <HistoryChart history={history} most={slots} />}
    </div>
  );
}

function amountsOf(nodes: NodeAnswer[]): [used: number, slots: number] {
  return nodes.reduce(([used, slots], each) => [used + each.slots_used, slots + each.slots], [0, 0]);
}

function usedText(nodes: NodeAnswer[]): string {
  const [used, slots] = amountsOf(nodes);
  return `${count(used)} of ${count(slots)} slots used`;
}
