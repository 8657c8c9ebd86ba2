/** `tandem endpoints`: the servers that a cluster's jobs copy from and to. */

import type { Command } from "commander";
import type { EndpointPage, EndpointRow } from "../../contract/index.ts";
import { table } from "../terminal/table.ts";
import { answerWith } from "./answers.ts";
import type { ServerFlags } from "./server-client.ts";
import { askServer, given, withServer } from "./server-command.ts";

interface EndpointFlags extends ServerFlags {
  readonly limit?: string;
}

export function addEndpointsCommand(program: Command): void {
  withServer(program.command("endpoints"))
    .description("list servers that jobs copy from and to, most failing jobs first")
    .option("--limit <number>", "maximum number (default 100)")
    .action((flags: EndpointFlags) =>
      askServer(flags, async ({ endpoints }) => [
        await endpoints.list(given(flags, ["limit"])).page(),
        print,
      ]),
    );
}

function print(answer: unknown): string {
  const { endpoints } = answerWith<EndpointPage>(answer, { endpoints: "array" });
  if (endpoints.length === 0) return "no job copies from or to another server\n";
  const rows = endpoints.map((endpoint) => [
    endpoint.host,
    String(endpoint.source_jobs),
    String(endpoint.target_jobs),
    endpoint.latency_ms === null ? "-" : `${endpoint.latency_ms} ms`,
    heldBack(endpoint),
    Object.entries(endpoint.failing)
      .map(([name, count]) => `${count} ${name}`)
      .join(", "),
  ]);
  const heading = ["SERVER", "FROM", "TO", "LATENCY", "STATE", "FAILING"];
  return table([heading, ...rows], { soft: [0], wrapsLast: true });
}

function heldBack({ outage, limiter_ms: limiterMs, budgets }: EndpointRow): string {
  const states = [
    ...(outage === null ? [] : [outage.confirmed ? "unreachable" : "possibly unreachable"]),
    ...(limiterMs === 0 ? [] : [`requests delayed by ${limiterMs} ms`]),
    ...(budgets.length === 0 ? [] : ["budget"]),
  ];
  return states.length === 0 ? "-" : states.join(", ");
}
