// The pools of all clusters, `/admin/pools`, and a form that changes the rules of one.

import { ask } from "../../api/request.ts";
import type { PoolRules } from "../../api/types.ts";
import { type Form, OPTIONAL, type Values } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { count } from "../../parts/text.ts";

const POLICIES = ["priority", "fair_share", "least_attained"];

export const Pools = () => (
  <List
    title="Pools"
    operation="GET /clusters"
    rows={(all) =>
      all.flatMap(({ name: cluster, kind, pools }) => pools.map((pool) => ({ cluster, kind, ...pool })))
    }
    columns={[
      ["Pool", (pool) => `${pool.cluster}/${pool.name}`],
      ["Order", ({ policy }) => policy.replace("_", " ")],
      ["Preemption", ({ preemption }) => (preemption ? "yes" : "no"), "wide"],
      ["Packing", ({ packing }) => packing.replace("_", " "), "wide"],
      ["Credits per slot-hour", (pool) => pool.credits_per_slot_hour, "right"],
      ["Slots used", ({ slots, slots_used }) => `${count(slots_used)} of ${count(slots)}`, "right"],
    ]}
    command={["clusters"]}
    action="manage"
    formsOf={(pool) => (pool.kind === "added" ? [setRules(pool)] : [])}
  />
);

function setRules({ cluster, name, ...pool }: PoolRules & { cluster: string }): Form {
  const preempts = String(pool.preemption);
  const changes = ({ policy, preemption, others = "" }: Values) => [
    ...(policy === pool.policy ? [] : [`policy=${policy}`]),
    ...(preemption === preempts ? [] : [`preemption=${preemption}`]),
    ...others.split(" ").filter(Boolean),
  ];
  return {
    verb: "Change",
    title: `Rules of ${cluster}/${name}`,
    text: "Running runs continue. The file of the cluster stays unchanged.",
    fields: [
      ["policy", "Order", pool.policy, POLICIES],
      ["preemption", "Preemption", preempts, ["true", "false"]],
      ["others", "Other rules, such as shares.ada=2 guaranteed=10m", "", OPTIONAL],
    ],
    command: (values) => ["clusters", "set", `${cluster}/${name}`, ...changes(values)],
    send: (values) => {
      const body = { pool: name, rules: rulesOf(changes(values)) };
      return ask("PATCH /clusters/{cluster}/pools", { path: { cluster }, body });
    },
  };
}

/** Rules as the command line reads them: a dot selects a part of a rule, and nothing stands for the default. */
function rulesOf(pairs: string[]): Record<string, unknown> {
  const rules: Record<string, unknown> = {};
  for (const pair of pairs) {
    const [key = "", text = ""] = pair.split("=");
    const [rule = "", part] = key.split(".");
    const words: Record<string, unknown> = { "": null, true: true, false: false };
    const value = text in words ? words[text] : Number.isNaN(Number(text)) ? text : Number(text);
    rules[rule] = part === undefined ? value : { ...(rules[rule] as object), [part]: value };
  }
  return rules;
}
