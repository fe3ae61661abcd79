// The chosen nodes: their state, what runs there, what it uses; and draining them, for administrators.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../../api/request.ts";
import type { NodeAnswer } from "../../api/types.ts";
import { FormDialog } from "../../parts/action.tsx";
import { bytes, time } from "../../parts/amounts.ts";
import { Bar } from "../../parts/bar.tsx";
import { commandLine, option } from "../../parts/shell.ts";
import { may } from "../../state/session.ts";
import type { Use } from "./slots.ts";

interface Props {
  nodes: NodeAnswer[];
  use: Use;
  onClose: () => void;
  onChange: () => void;
}

export function Details({ nodes, use, onClose, onChange }: Props): JSX.Element {
  const [drains, setDrains] = useState<boolean | null>(null);
  const drained = nodes.filter(({ drain, state }) => drain !== null || state === "drained");
  return (
    <aside class="facts node-details" aria-label="Chosen nodes">
      <div class="node-actions">
        <h2>{nodes.length === 1 ? nodes[0]?.name : `${nodes.length} nodes`}</h2>
        {may("manage") && (
          <>
            {nodes.some(({ state }) => state !== "drained") && (
              <button type="button" class="button" onClick={() => setDrains(true)}>
                Drain…
              </button>
            )}
            {drained.length > 0 && (
              <button type="button" class="button" onClick={() => setDrains(false)}>
                Undrain…
              </button>
            )}
          </>
        )}
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </div>
      {nodes.length === 1 && nodes[0] && <Facts node={nodes[0]} />}
      {nodes.map((node) => (
        <Runs key={node.name} node={node} use={use} named={nodes.length > 1} />
      ))}
      {drains !== null && (
        <DrainDialog
          nodes={drains ? nodes : drained}
          drains={drains}
          onClose={() => {
            setDrains(null);
            onChange();
          }}
        />
      )}
    </aside>
  );
}

function Facts({ node }: { node: NodeAnswer }): JSX.Element {
  const { drain } = node;
  const rows: [string, ComponentChildren][] = [
    ["State", node.state],
    ["Reason", node.reason],
    ["Drained by", drain?.user],
    ["Since", drain?.at && time(drain.at)],
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
  return (
    <dl>
      {rows.map(
        ([name, value]) =>
          value != null &&
          value !== "" && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

function Runs({ node, use, named }: { node: NodeAnswer; use: Use; named: boolean }): JSX.Element {
  return (
    <table class="plain">
      {named && <caption class="quiet">{node.name}</caption>}
      <tbody>
        {node.runs.map(({ id, name, user, slots }) => {
          const measured = use.get(id)?.find((each) => each.node === node.name);
          return (
            <tr key={id}>
              <td>
                <a href={`/run/${id}`}>{name}</a>
                <br />
                <span class="quiet">{user}</span>
              </td>
              <td class="right">{slots} slots</td>
              <td class="right">
                {measured && `${measured.cpus.toFixed(1)} CPUs, ${bytes(measured.memory_bytes)}`}
                {measured?.gpus.map(({ index, busy_percent }) => (
                  <Bar
                    key={index}
                    share={busy_percent / 100}
                    label={`GPU ${index}: ${busy_percent} % busy`}
                  />
                ))}
              </td>
            </tr>
          );
        })}
        {node.runs.length === 0 && (
          <tr>
            <td class="quiet">Nothing runs here.</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

interface DrainProps {
  nodes: NodeAnswer[];
  drains: boolean;
  onClose: () => void;
}

function DrainDialog({ nodes, drains, onClose }: DrainProps): JSX.Element {
  const [reason, setReason] = useState("");
  const names = nodes.map(({ name }) => name);
  const verb = drains ? "Drain" : "Undrain";
  const given = drains ? option("--reason", reason.trim()) : [];
  return (
    <FormDialog
      title={`${verb} ${names.length === 1 ? names[0] : `${names.length} nodes`}`}
      verb={verb}
      command={commandLine("nodes", verb.toLowerCase(), ...names, ...given)}
      send={() =>
        drains
          ? ask("POST /nodes/drain", { body: { nodes: names, reason: reason.trim() } })
          : ask("POST /nodes/undrain", { body: { nodes: names } })
      }
      onClose={onClose}
    >
      <p>
        {drains ? "They get no new work; what runs there continues." : "They get new work again."}{" "}
        {names.length > 1 && <span class="quiet">{names.join(", ")}</span>}
      </p>
      {drains && (
        <label class="form-grid">
          Reason
          <input
            maxLength={500}
            value={reason}
            onInput={({ currentTarget }) => setReason(currentTarget.value)}
          />
        </label>
      )}
    </FormDialog>
  );
}
