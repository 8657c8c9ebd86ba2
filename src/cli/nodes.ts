/** `tandem nodes`: the nodes of a server's cluster that run jobs. */
import type { Command } from "commander";
import { askServer, type ServerFlags, withServer } from "./server-command.ts";
import { table } from "./table.ts";

interface WorkersAnswer {
  readonly workers: readonly {
    readonly id: string;
    readonly node: string;
    readonly pid: string;
    readonly jobs: number;
    readonly since: string;
    readonly last_sign_of_life: string;
  }[];
  readonly expelled: readonly unknown[];
}

export function addNodesCommand(program: Command): void {
  const nodes = program.command("nodes").description("look at the nodes that run jobs");
  withServer(nodes.command("list"))
    .description("nodes with their jobs and their last sign of life")
    .action((flags: ServerFlags) =>
      askServer(flags, async (server) => [await server.ask("GET", "/_tandem/workers"), printNodes]),
    );
}

function printNodes(answer: unknown): string {
  const { workers, expelled } = answer as WorkersAnswer;
  const rows = workers.map(({ node, pid, jobs, since, last_sign_of_life: lastSign }) => [
    node,
    pid,
    String(jobs),
    since,
    lastSign,
  ]);
  const gone =
    expelled.length === 0 ? "" : `${expelled.length} dead nodes whose jobs are being taken over\n`;
  return `${table([["NODE", "PROCESS", "JOBS", "SINCE", "LAST SIGN OF LIFE"], ...rows])}${gone}`;
}
