// Usage and credits, `/usage`: slot-hours by user, project, pool or time, and what is left of credits.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { CreditAccount } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.tsx";
import { count, time } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { Command } from "../../parts/command.tsx";
import type { Form } from "../../parts/form.tsx";
import { List, Rows, Sheet, Tabs } from "../../parts/list.tsx";
import { notifyFailure } from "../../parts/notices.tsx";
import { commandLine, option } from "../../parts/shell.ts";
import { query, setQuery } from "../../state/place.ts";
import { may } from "../../state/session.ts";
import { csvOf, type Group, sum, type Total, totals } from "./totals.ts";

const DAY_S = 86_400;
const PERIODS = [7, 30, 90, 365];
const PARTS = 10;
const WARNED_SHARE = 0.8;

export function UsagePage({ rest }: PageProps): JSX.Element {
  const by = rest || "user";
  const days = Number(query.value.get("days") ?? 30);
  const [rows, setRows] = useState<Total[]>([]);
  useEffect(() => {
    read(by, days).then(setRows, notifyFailure);
  }, [by, days]);
  const most = Math.max(1e-9, ...rows.map(({ slot_s }) => slot_s));
  const tabs = { "": "By user", project: "By project", pool: "By pool", time: "By time" };
  const csv = `data:text/csv;charset=utf-8,${encodeURIComponent(csvOf(rows, by))}`;
  const bar = (
    <>
      <Tabs of="/usage" tabs={tabs} chosen={rest} />
      <select
        aria-label="Days"
        value={days}
        onChange={({ currentTarget }) => setQuery({ days: currentTarget.value })}
      >
        {PERIODS.map((each) => (
          <option key={each} value={each}>{`${each} days`}</option>
        ))}
      </select>
      <a class="button" href={csv} download={`usage-by-${by}.csv`}>
        CSV
      </a>
    </>
  );
  return (
    <Sheet title="Usage" bar={bar}>
      <Rows
        label="Usage"
        rows={rows}
        columns={[
          [`By ${by}`, ({ name }) => name],
          ["", ({ slot_s }) => <Share of={slot_s / most} />],
          ["Slot-hours", ({ slot_s }) => (slot_s / 3600).toFixed(2), "right"],
          ["Runs", ({ runs }) => count(runs), "right"],
        ]}
        empty="Nothing was used in this time."
      />
      <Command
        text={commandLine("usage", ...option("--by", by === "time" ? null : by), "--since", `${days}d`)}
      />
      <Credits />
    </Sheet>
  );
}

/** The totals of each user, project or pool, or of ten equal parts of the time, the newest first. */
async function read(by: string, days: number): Promise<Total[]> {
  const until = Date.now() / 1000;
  const step = (days * DAY_S) / PARTS;
  if (by !== "time")
    return totals(await ask("GET /usage", { query: { since: until - days * DAY_S } }), by as Group);
  const parts = Array.from({ length: PARTS }, async (_, index) => {
    const end = until - index * step;
    const used = await ask("GET /usage", { query: { since: end - step, until: end } });
    return sum(`${time(end - step).slice(0, 16)} – ${time(end).slice(5, 16)}`, used);
  });
  return Promise.all(parts);
}

function Share({ of }: { of: number }): JSX.Element {
  return (
    <span class="wide-meter">
      <Bar share={of} label={`${Math.round(of * 100)}%`} />
    </span>
  );
}

const used = ({ granted, balance }: CreditAccount) => (granted > 0 ? (granted - balance) / granted : 1);

function usedText(account: CreditAccount): JSX.Element {
  const warned = used(account) >= WARNED_SHARE;
  return (
    <span class={warned ? "failed" : ""}>{`${warned ? "⚠ " : ""}${Math.round(used(account) * 100)}%`}</span>
  );
}

function Credits(): JSX.Element {
  return (
    <List
      title="Credits"
      operation="GET /credits"
      rows={(found) => found}
      columns={[
        ["Account", ({ account }) => account],
        ["", (account) => <Share of={used(account)} />],
        ["Used", usedText, "right"],
        ["Left", ({ balance }) => balance.toFixed(2), "right"],
        ["Of", ({ granted }) => granted.toFixed(2), "right"],
      ]}
      command={commandLine("credits", "ls")}
      empty="No user and no project uses credits."
      forms={may("manage") ? [GRANT] : undefined}
    />
  );
}

const GRANT: Form = {
  verb: "Grant credits",
  title: "Grant credits",
  text: "From the first grant on, the runs of the user or project use credits.",
  fields: [
    ["kind", "To a", ["user", "project"]],
    ["name", "Name"],
    ["credits", "Credits"],
    ["note", "Note", "", "optional"],
  ],
  command: ({ kind, name, credits, note }) =>
    commandLine("credits", "grant", credits, `--${kind}`, name, ...option("--note", note)),
  send: ({ kind, name, credits, note = "" }) => {
    const account = `${kind}:${name}`;
    return ask("POST /credits", {
      body: { account, credits: Number(credits), note, key: crypto.randomUUID() },
    });
  },
};
