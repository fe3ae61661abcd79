// All nodes, `/nodes`: a map of slots by pool, what runs where, drained nodes, and who holds slots without use.

import { useMemo } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { NodeAnswer, NodeUtilization, SlotHistory } from "../../api/types.ts";
import { Button } from "../../parts/controls.tsx";
import { type Form, FormButton, OPTIONAL } from "../../parts/form.tsx";
import { type Cell, Page, PoolTabs, poolName, Rows } from "../../parts/list.tsx";
import { Bar, Command, type Fact, Facts, gpuBars, Problem } from "../../parts/shown.tsx";
import { bytes, count, duration, time } from "../../parts/text.ts";
import { useAnswer } from "../../state/answer.ts";
import { query, withQuery } from "../../state/place.ts";
import { may, now } from "../../state/session.ts";
import { pointed, SlotMap } from "./map.tsx";
import { gpuShare, type Holder, idleHolders, idleRuns, type Use, useOf } from "./slots.ts";

const ASK_MS = 5_000;
const HISTORY_MS = 60_000;
const SHOWN = 20;
const STATES = ["free", "used", "idle", "drained", "lost"] as const;

export function NodesPage() {
  const { data: nodes, problem } = useAnswer("GET /nodes", { everyMs: ASK_MS, runs: "all" });
  const { data: measured } = useAnswer("GET /utilization", { everyMs: ASK_MS });
  const { data: history } = useAnswer("GET /usage/history", { everyMs: HISTORY_MS });
  const use = useMemo(() => useOf(measured ?? []), [measured]);
  const ids = idleRuns(use, now.peek());
  const idle = useMemo(() => new Set(ids), [ids.join()]);
  if (!nodes) return <Problem problem={problem} />;
  const pools = [...Map.groupBy(nodes, (node) => poolName(node))].map(([key, members]) => {
    const [cluster = "", pool = ""] = key.split("/");
    return { key, cluster, pool, members, total: members.length };
  });
  const pool = query.value.get("pool");
  const chosen = pools.filter(({ key }) => key === pool);
  const shown = chosen.length > 0 ? chosen : pools;
  const members = shown.flatMap((each) => each.members);
  const names = query.value.getAll("node");
  const bar = (
    <>
      <ul class="row wrap legend">
        {STATES.map((state) => (
          <li key={state} class="row">
            <span class={`slot slot-${state}`} /> {state}
          </li>
        ))}
      </ul>
      <p class="pointed quiet">{pointed}</p>
    </>
  );
  return (
    <Page title="Nodes" sum={`${count(nodes.length)}, ${usedText(members)}`} bar={bar}>
      <PoolTabs pools={pools} chosen={pool} all />
      <div class="columns">
        <div class="main-column">
          {shown.map((each) => (
            <section key={each.key} class="stack">
              <div class="row wrap">
                <h2>{poolName(each, pools)}</h2>
                {poolUse(each.members, use)}
                {history?.map((part) => poolName(part) === each.key && historyChart(part, each.members))}
              </div>
              <SlotMap nodes={each.members} idle={idle} chosen={names} />
            </section>
          ))}
          {nodes.length === 0 && <p class="quiet">No cluster has reported a node yet.</p>}
          <Command of={["nodes", { pool: chosen[0]?.pool }]} />
        </div>
        {nodes.some(({ name }) => names.includes(name)) ? (
          <Details nodes={nodes.filter(({ name }) => names.includes(name))} use={use} />
        ) : (
          <Overview nodes={members} holders={idleHolders(members, idle)} />
        )}
      </div>
    </Page>
  );
}

/** How much of a pool is used, and how busy its GPUs are. */
function poolUse(nodes: NodeAnswer[], use: Use) {
  const [used, slots] = amountsOf(nodes);
  const busy = gpuShare(nodes, use);
  const text = usedText(nodes);
  return (
    <>
      <Bar share={used / (slots || 1)} label={text} />
      <span class="quiet">{busy === null ? text : `${text}, GPUs ${Math.round(busy * 100)} % busy`}</span>
    </>
  );
}

/** The slots in use over the last day: a small area, as high as all slots. */
function historyChart({ slots, step_s }: SlotHistory, nodes: NodeAnswer[]) {
  const round = (value: number) => Math.round(value * 10) / 10;
  const top = Math.max(amountsOf(nodes)[1], ...slots, 1);
  const mean = slots.reduce((sum, each) => sum + each, 0) / slots.length;
  const points = slots.map((each, index) => `L${index} ${round(top - each)}h1`);
  const share = Math.round((100 * mean) / top);
  const label = `The last ${duration(slots.length * step_s)}: ${round(mean)} of ${top} slots in use, ${share} %`;
  const box = `0 0 ${slots.length} ${top}`;
  return (
    <>
      <span class="quiet bar-end history">24 h</span>
      <svg class="slot-chart" viewBox={box} preserveAspectRatio="none" role="img" aria-label={label}>
        <title>{label}</title>
        <path d={`M0 ${top}${points.join("")}V${top}Z`} />
      </svg>
    </>
  );
}

function amountsOf(nodes: NodeAnswer[]): [used: number, slots: number] {
  return nodes.reduce(([used, slots], each) => [used + each.slots_used, slots + each.slots], [0, 0]);
}

function usedText(nodes: NodeAnswer[]): string {
  const [used, slots] = amountsOf(nodes);
  return `${count(used)} of ${count(slots)} slots used`;
}

function Details({ nodes, use }: { nodes: NodeAnswer[]; use: Use }) {
  const [first, ...others] = nodes;
  const forms: Form[] = [];
  const drained = nodes.filter(({ drain, state }) => drain !== null || state === "drained");
  if (nodes.some(({ state }) => state !== "drained")) forms.push(drain("Drain", nodes));
  if (drained.length > 0) forms.push(drain("Undrain", drained));
  return (
    <aside class="facts node-details" aria-label="Chosen nodes">
      <div class="row">
        <h2>{titleOf(nodes)}</h2>
        <span class="bar-end">
          {may("manage") && forms.map((form) => <FormButton key={form.verb} form={form} />)}
          <Button class="quiet" label="×" name="Close" change={{ node: null }} />
        </span>
      </div>
      {first && others.length === 0 && <Facts facts={factsOf(first)} />}
      {nodes.map((node) => (
        <section key={node.name}>
          {others.length > 0 && <h3>{node.name}</h3>}
          <Rows
            label={`Runs on ${node.name}`}
            rows={node.runs}
            columns={[
              ["Run", ({ id, name }) => <a href={`/run/${id}`}>{name}</a>],
              ["User", ({ user }) => user],
              ["Slots", ({ slots }) => slots, "right"],
              [
                "Use",
                ({ id }) => use.get(id)?.map((each) => each.node === node.name && useText(each)),
                "right",
              ],
            ]}
          />
        </section>
      ))}
    </aside>
  );
}

function titleOf(nodes: NodeAnswer[]): string {
  return nodes.length === 1 ? (nodes[0]?.name ?? "") : `${nodes.length} nodes`;
}

const factsOf = ({ drain, ...node }: NodeAnswer): Fact[] => [
  ["State", node.state],
  ["Reason", node.reason],
  ["Drained by", drain?.user],
  ["Since", time(drain?.at ?? null)],
  ["Slots", `${node.slots_used} of ${node.slots} used`],
  ["Type", node.slot_type],
  ["CPUs", node.cpus],
  ["Memory", bytes(node.memory_bytes)],
  ["Cluster", node.cluster],
  ["Pool", node.pool],
  ["Shard", node.shard],
  ["Host", node.hostname],
  ["Address", node.address],
];

/** What a run uses on a node, as far as it is measured. */
const useText = (use: NodeUtilization) => [
  `${use.cpus.toFixed(1)} CPUs, ${bytes(use.memory_bytes)} `,
  gpuBars(use),
];

function drain(verb: "Drain" | "Undrain", nodes: NodeAnswer[]): Form {
  const names = nodes.map(({ name }) => name);
  const drains = verb === "Drain";
  return {
    verb,
    title: `${verb} ${titleOf(nodes)}`,
    text: `${names.join(", ")}: ${drains ? "no new work; what runs there continues" : "new work again"}.`,
    fields: drains ? [["reason", "Reason", "", { ...OPTIONAL, maxLength: 500 }]] : [],
    command: ({ reason }) => ["nodes", verb.toLowerCase(), ...names, { reason: reason?.trim() }],
    send: ({ reason = "" }) =>
      drains
        ? ask("POST /nodes/drain", { body: { nodes: names, reason: reason.trim() } })
        : ask("POST /nodes/undrain", { body: { nodes: names } }),
  };
}

function Overview({ nodes, holders }: { nodes: NodeAnswer[]; holders: Holder[] }) {
  const away = nodes.filter(({ state, drain }) => state !== "up" || drain !== null);
  const held = holders.reduce((sum, each) => sum + each.slots, 0);
  return (
    <aside class="facts">
      {shortList("Held without use", `${count(held)} slots`, holders, [
        ["User", ({ user }) => <a href={`/?${new URLSearchParams({ user, status: "running" })}`}>{user}</a>],
        ["Run", ({ run }) => <a href={`/run/${run.id}`}>{run.name}</a>],
        ["Slots", ({ slots, nodes: names }) => <span title={names.join(", ")}>{slots}</span>, "right"],
      ])}
      {shortList("Drained or lost", count(away.length), away, [
        ["Node", ({ name }) => <a href={withQuery({ node: name })}>{name}</a>],
        ["State", stateOf],
      ])}
      <p class="quiet">Choose a node to see what runs there; Shift adds more.</p>
    </aside>
  );
}

function shortList<Row>(title: string, sum: string, rows: Row[], columns: Cell<Row>[]) {
  if (rows.length === 0) return null;
  const more = rows.length > SHOWN ? `, the first ${SHOWN}` : "";
  return (
    <section>
      <h2>
        {title} <span class="quiet">{sum + more}</span>
      </h2>
      <Rows label={title} rows={rows.slice(0, SHOWN)} columns={columns} />
    </section>
  );
}

function stateOf({ state, reason, drain }: NodeAnswer): string {
  const what = drain?.slots.length ? `slots ${drain.slots.join(", ")} drained` : state;
  const since = [drain?.user, time(drain?.at ?? null)].filter(Boolean).join(", ");
  return [what, reason, since].filter(Boolean).join("; ");
}
