/** `tandem move …`: takes over the replications of a CouchDB, and returns them. */
import { type Command, InvalidArgumentError } from "commander";
import { withServer } from "../server/server-command.ts";
import type { MoveFlags } from "./run-move.ts";

const STEPS = [
  [
    "take",
    "copy the documents to this server, with paused jobs; repeat it for new and changed ones",
  ],
  ["stop", "end the jobs on the old server: deletes the documents that were copied"],
  ["start", "resume the jobs that the old server no longer runs"],
  ["verify", "show the progress of the jobs, and verify the copies of those that have caught up"],
  ["back", "move the documents back: pause them, write them to the old server, delete them here"],
] as const;

export function addMoveCommand(program: Command): void {
  const move = program
    .command("move")
    .description("move the replications of a CouchDB to this server step by step, or back");
  const define = (name: string, description: string, options = {}): Command =>
    withServer(move.command(name, options))
      .description(description)
      .requiredOption("--from <url>", "the old server (TANDEM_FROM_USER, TANDEM_FROM_PASSWORD)")
      .option("--database <name...>", "its databases of replication documents", ["_replicator"])
      .option("--only <id...>", "these documents");
  define("plan", "show what would happen to each document, without changes", {
    isDefault: true,
  }).action(async (flags: MoveFlags) => (await import("./run-move.ts")).runPlan(flags));
  for (const [name, description] of STEPS) {
    const command = define(name, description)
      .option("--limit <number>", "maximum number of documents", count)
      .action(async (flags: MoveFlags) => (await import("./run-move.ts")).runStep(name, flags));
    if (name === "take")
      command.option("--take-uuid", "set the uuid of the old server if no job is running");
    if (name === "start") command.option("--anyway", "without asking the old server");
  }
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("expected a positive integer");
  return Number(text);
}
