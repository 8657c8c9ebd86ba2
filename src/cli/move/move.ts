/** `tandem move …`: takes over the replications of a CouchDB, and returns them. */
import { type Command, InvalidArgumentError } from "commander";
import { withServer } from "../server/server-command.ts";
import type { MoveFlags } from "./run-move.ts";

const STEPS = [
  ["take", "copy the documents here; their jobs are paused. Again: what is new or was changed"],
  ["stop", "end their jobs at the old server: what is here is deleted there"],
  ["start", "resume here what the old server no longer runs"],
  ["verify", "how far they are, and whether the copies of those that have arrived are whole"],
  ["back", "pause them here, write them to the old server again, and delete them here"],
] as const;

export function addMoveCommand(program: Command): void {
  const move = program
    .command("move")
    .description("take the replications of a CouchDB over, step by step, and back");
  const define = (name: string, description: string, options = {}): Command =>
    withServer(move.command(name, options))
      .description(description)
      .requiredOption("--from <url>", "the old server (TANDEM_FROM_USER, TANDEM_FROM_PASSWORD)")
      .option("--database <name...>", "its databases of replication documents", ["_replicator"])
      .option("--only <id...>", "these documents");
  define("plan", "what would become of each document; changes nothing", { isDefault: true }).action(
    async (flags: MoveFlags) => (await import("./run-move.ts")).runPlan(flags),
  );
  for (const [name, description] of STEPS) {
    const command = define(name, description)
      .option("--limit <number>", "so many documents at most", count)
      .action(async (flags: MoveFlags) => (await import("./run-move.ts")).runStep(name, flags));
    if (name === "take")
      command.option("--take-uuid", "set the uuid of the old server, if no job runs");
    if (name === "start") command.option("--anyway", "without asking the old server");
  }
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("expected a positive integer");
  return Number(text);
}
