/** `tandem move …`: takes over the replications of a CouchDB server, or moves them back. */
import { type Command, InvalidArgumentError } from "commander";
import { withServer } from "../server/server-command.ts";
import type { MoveFlags } from "./run-move.ts";

const STEPS = [
  [
    "take",
    "copy the replication documents to the new server, where their jobs stay paused; run it again to copy new and changed documents",
  ],
  [
    "stop",
    "end the jobs on the old server by deleting those of its replication documents that were copied to the new server",
  ],
  ["start", "resume those jobs on the new server that the old server no longer runs"],
  [
    "verify",
    "show the progress of the jobs, and verify the copied databases of jobs that have caught up",
  ],
  [
    "back",
    "move the replication documents back: pause their jobs, write the documents to the old server, delete them on the new one",
  ],
] as const;

export function addMoveCommand(program: Command): void {
  const move = program
    .command("move")
    .description(
      "move the replications of a CouchDB server to this server step by step, or move them back",
    );
  const define = (name: string, description: string, options = {}): Command =>
    withServer(move.command(name, options))
      .description(description)
      .requiredOption("--from <url>", "the old server (TANDEM_FROM_USER, TANDEM_FROM_PASSWORD)")
      .option("--database <name...>", "databases of replication documents on the old server", [
        "_replicator",
      ])
      .option("--only <id...>", "only the documents with these ids");
  define("plan", "show what would happen to each document, without changes", {
    isDefault: true,
  }).action(async (flags: MoveFlags) => (await import("./run-move.ts")).runPlan(flags));
  for (const [name, description] of STEPS) {
    const command = define(name, description)
      .option("--limit <number>", "maximum number of documents", count)
      .action(async (flags: MoveFlags) => (await import("./run-move.ts")).runStep(name, flags));
    if (name === "take")
      command.option(
        "--take-uuid",
        "give this server the uuid of the old server and do nothing else; requires that all jobs here are paused",
      );
    if (name === "start")
      command.option("--anyway", "do not check the state of the jobs on the old server");
  }
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("expected a positive integer");
  return Number(text);
}
