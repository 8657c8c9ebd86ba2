/** `tandem nodes`: the processes of a cluster that run jobs. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { NodePage } from "../../contract/index.ts";
import { counted } from "../terminal/counted.ts";
import { table } from "../terminal/table.ts";
import { answerWith, printOk } from "./answers.ts";
import type { Server, ServerFlags, TypedServer } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

/** Polling interval for a draining node. */
const LOOK_MS = 500;

export function addNodesCommand(program: Command): void {
  const nodes = program
    .command("nodes")
    .description("list the nodes that run jobs, and drain them");
  withServer(nodes.command("list"))
    .description("list nodes with their jobs and state")
    .action((flags: ServerFlags) =>
      askServer(flags, async (server) => [await server.nodes.list().page(), printNodes]),
    );
  withServer(nodes.command("drain <name>"))
    .description(
      "stop a node from accepting jobs, return its jobs to the queue, and wait until it has none left",
    )
    .action((name: string, flags: ServerFlags) =>
      askServer(flags, (server) => drain(server, name)),
    );
  withServer(nodes.command("undrain <name>"))
    .description("allow a node to accept jobs again")
    .action((name: string, flags: ServerFlags) =>
      askServer(flags, async (server) => [await server.nodes.undrain(name), printOk]),
    );
}

/**
 * Drains a node and waits until it has no jobs left. Reports the number of remaining jobs on
 * standard error.
 */
async function drain(server: TypedServer, asked: string) {
  await server.nodes.drain(asked);
  const name = asked === "_local" ? await localName(server) : asked;
  for (let reported: number | undefined; ; await sleep(LOOK_MS)) {
    const { nodes } = nodesOf(await server.nodes.list().page());
    const named = nodes.filter((node) => node.id === name || node.name === name);
    const draining = named.filter(({ state, drained }) => state === "draining" && !drained);
    if (draining.length === 0)
      return [{ nodes: named }, () => "drained: the node has no jobs left\n"] as const;
    const left = draining.reduce((count, { jobs }) => count + jobs, 0);
    if (left !== reported) process.stderr.write(`${counted(left, "job")} left\n`);
    reported = left;
  }
}

async function localName(server: Server): Promise<string> {
  const answer = await server.ask("GET", "/_node/_local");
  return answerWith<{ readonly name: string }>(answer, { name: "string" }).name;
}

function nodesOf(answer: unknown): NodePage {
  return answerWith(answer, { nodes: "array" });
}

function printNodes(answer: unknown): string {
  const { nodes } = nodesOf(answer);
  const areLabelled = nodes.some(({ labels = [] }) => labels.length > 0);
  const rows = nodes.map((node) => [
    node.name,
    node.id ?? "-",
    node.pid ?? "-",
    node.state,
    `${node.jobs}/${node.slots ?? "-"}`,
    node.memory_bytes === null ? "-" : `${Math.round(node.memory_bytes / 1_000_000)} MB`,
    shown(node.event_loop_delay_ms, "ms"),
    shown(node.lease_age_sec, "s"),
    node.version ?? "-",
    ...(areLabelled ? [node.labels.join(", ") || "-"] : []),
  ]);
  const heading = ["NODE", "ID", "PROCESS", "STATE", "JOBS", "MEMORY", "DELAY", "LEASE", "VERSION"];
  if (areLabelled) heading.push("LABELS");
  return table([heading, ...rows], { soft: [1, 8, 9], whole: [0] });
}

function shown(value: number | null, unit: string): string {
  return value === null ? "-" : `${value} ${unit}`;
}
