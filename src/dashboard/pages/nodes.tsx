/** The processes that run jobs. */
import { useState } from "preact/hooks";
import type { NodeRow } from "../../contract/index.ts";
import { client } from "../api/request.ts";
import { useIdleFeed, useRefresh, useSurroundings } from "../base/context.ts";
import { formatBytes, formatNumber } from "../base/format.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { Cell, type Column, Figure, Table } from "../components/table.tsx";
import { Foreign, Moment, Problem, Proven } from "../components/text.tsx";
import { AlertDeliverySection } from "./alert-delivery.tsx";

const REFRESH_MS = 5_000;

const COLUMNS: readonly Column[] = [
  { name: "Node" },
  { name: "State" },
  { name: "Jobs", isNumber: true },
  { name: "Slots", isNumber: true },
  { name: "Memory", isNumber: true },
  { name: "Event loop delay", isNumber: true },
  { name: "Lease renewed", isNumber: true },
  { name: "Last report", isNumber: true },
  { name: "Started", isNumber: true },
  { name: "Process" },
  { name: "Version" },
  { name: "Formats" },
  { name: "Labels" },
];

export function NodesPage() {
  const { session, announce } = useSurroundings();
  const [refusal, setRefusal] = useState<unknown>();
  const { value, error, reload } = useLoaded(
    (signal) => client.nodes.list({}, { signal }).page(),
    "nodes",
  );
  useIdleFeed(reload);
  useRefresh(reload, REFRESH_MS);
  const drain = async (id: string, isDraining: boolean) => {
    setRefusal(undefined);
    try {
      await client.nodes[isDraining ? "drain" : "undrain"](id);
      if (isDraining)
        announce(
          "Draining: the process returns its jobs to the queue",
          () => void drain(id, false),
        );
      else announce("The process accepts jobs again");
    } catch (failure) {
      setRefusal(failure);
    }
    reload();
  };
  return (
    <>
      <h1>Nodes</h1>
      <Problem error={refusal ?? error} />
      {value !== undefined && (
        <Table
          label="Nodes"
          columns={session.changes ? [...COLUMNS, { name: "Drain", isHidden: true }] : COLUMNS}
        >
          {value.nodes.map((node) => (
            <Row
              key={`${node.name} ${node.id} ${node.pid}`}
              node={node}
              onDrain={session.changes ? (id, isDraining) => void drain(id, isDraining) : undefined}
            />
          ))}
        </Table>
      )}
      {value?.nodes.length === 0 && <p class="section-note">No process runs jobs.</p>}
      <AlertDeliverySection />
    </>
  );
}

function Row({
  node,
  onDrain,
}: {
  node: NodeRow;
  /** Called to start or end draining of a node; absent for read-only users. */
  onDrain: ((id: string, isDraining: boolean) => void) | undefined;
}) {
  const { id, name, state, drained, jobs, slots, pid, version, formats } = node;
  return (
    <tr>
      <th scope="row">
        <Foreign text={name} />
      </th>
      <Cell name="State">
        <span class={`badge badge-${state}`}>{drained ? "drained" : state}</span>
      </Cell>
      <Cell name="Jobs" isNumber>
        {formatNumber(jobs)}
      </Cell>
      <Cell name="Slots" isNumber>
        <Figure value={slots} />
      </Cell>
      <Cell name="Memory" isNumber>
        <Figure value={node.memory_bytes} format={formatBytes} />
      </Cell>
      <Cell name="Event loop delay" isNumber>
        <Figure value={node.event_loop_delay_ms} format={(ms) => `${formatNumber(ms)} ms`} />
      </Cell>
      <Cell name="Lease renewed" isNumber>
        <Figure value={node.lease_age_sec} format={(sec) => `${formatNumber(sec)} s ago`} />
      </Cell>
      <Cell name="Last report" isNumber>
        <Moment time={node.last_report} />
      </Cell>
      <Cell name="Started" isNumber>
        <Moment time={node.started} />
      </Cell>
      <Cell name="Process">
        <Proven value={pid} />
      </Cell>
      <Cell name="Version">
        <Proven value={version} />
      </Cell>
      <Cell name="Formats">
        <Proven value={formats && `${formats.min} to ${formats.max}`} />
      </Cell>
      <Cell name="Labels">{node.labels.join(", ") || "–"}</Cell>
      {onDrain !== undefined && (
        <Cell name="">
          {id !== null && state !== "dead" && (
            <button
              type="button"
              aria-label={`${state === "draining" ? "Undrain" : "Drain"} process ${pid}`}
              onClick={() => onDrain(id, state === "running")}
            >
              {state === "draining" ? "Undrain" : "Drain"}
            </button>
          )}
        </Cell>
      )}
    </tr>
  );
}
