// The pools of all clusters, `/admin/pools`, and the rules of one of them as a form.

import type { JSX } from "preact";
import { ask } from "../../api/request.ts";
import type { PoolRules } from "../../api/types.ts";
import { count } from "../../parts/amounts.ts";
import { type Field, type Form, OPTIONAL, type Values } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { commandLine } from "../../parts/shell.ts";
import { may } from "../../state/session.ts";

const POLICIES = ["priority", "fair_share", "least_attained"];
const NUMBER = { type: "number", min: 0, step: "any" } as const;
const WITHOUT_SHARES = { share_by: "", shares: "", half_life: "" };

type Pool = PoolRules & { cluster: string };

export function Pools(): JSX.Element {
  const used = (of: { slots: number; slots_used: number }) => `${count(of.slots_used)} of ${count(of.slots)}`;
  return (
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
        ["Slots used", used, "right"],
      ]}
      command={commandLine("clusters")}
      empty="There is no pool."
      formsOf={may("manage") ? (pool) => (pool.kind === "added" ? [setRules(pool)] : []) : undefined}
    />
  );
}

/** Only rules that were changed are sent. A pool that is shared no longer has no rules about shares. */
function setRules(pool: Pool): Form {
  const first = valuesOf(pool);
  function changes(values: Values): [rule: string, value: string][] {
    const ends = pool.policy === "fair_share" && values.policy !== "fair_share";
    return Object.entries({ ...values, ...(ends && WITHOUT_SHARES) }).filter(
      ([rule, value]) => value !== (first as Values)[rule],
    );
  }
  return {
    verb: "Change",
    title: `Rules of ${pool.cluster}/${pool.name}`,
    text: "Running runs continue. The file of the cluster stays unchanged.",
    fields: ({ policy = pool.policy }) => fieldsOf(policy, first),
    command: (values) => {
      const words = changes(values).flatMap(([rule, value]) =>
        rule === "shares" && value ? pairs(value).map((pair) => `shares.${pair}`) : `${rule}=${value}`,
      );
      return words.length > 0
        ? commandLine("clusters", "set", `${pool.cluster}/${pool.name}`, ...words)
        : null;
    },
    send: (values) => {
      const rules = Object.fromEntries(changes(values).map(([rule, value]) => [rule, ruleOf(rule, value)]));
      const body = { pool: pool.name, rules };
      return ask("PATCH /clusters/{cluster}/pools", { path: { cluster: pool.cluster }, body });
    },
  };
}

function valuesOf({ shares, ...pool }: Pool) {
  return {
    policy: pool.policy,
    preemption: String(pool.preemption),
    packing: pool.packing,
    credits_per_slot_hour: String(pool.credits_per_slot_hour),
    share_by: pool.share_by,
    shares: Object.entries(shares)
      .map((pair) => pair.join("="))
      .join(" "),
  };
}

function fieldsOf(policy: string, first: ReturnType<typeof valuesOf>): Field[] {
  const fields: Field[] = [
    ["policy", "Order", first.policy, POLICIES],
    [
      "preemption",
      "Preemption",
      first.preemption,
      [
        ["true", "yes"],
        ["false", "no"],
      ],
    ],
    ["packing", "Packing", first.packing, ["pack", "spread"]],
    ["credits_per_slot_hour", "Credits per slot-hour", first.credits_per_slot_hour, NUMBER],
  ];
  const shares: Field[] = [
    ["share_by", "Shares of each", first.share_by, ["user", "project", "run"]],
    ["shares", "Shares, such as ada=2 bob=1", first.shares, OPTIONAL],
  ];
  return policy === "fair_share" ? [...fields, ...shares] : fields;
}

const pairs = (shares: string) => shares.split(" ").filter(Boolean);

function ruleOf(rule: string, value: string): unknown {
  if (rule === "preemption") return value === "true";
  if (rule === "credits_per_slot_hour") return Number(value);
  if (rule !== "shares" || value === "") return value || null;
  const shares = pairs(value).map((pair) => pair.split("="));
  return Object.fromEntries(shares.map(([who, share]) => [who, Number(share)]));
}
