#!/usr/bin/env node
/**
 * The command `tandem`. Loads only the definitions of the commands; each command loads its
 * implementation when it is called, so that `tandem jobs list` does not load a server's modules.
 */
import { setMaxListeners } from "node:events";
import { Command, InvalidArgumentError } from "commander";
import { collectBetweenTurns, leaveSomeGarbage } from "../host/index.ts";
import { VERSION } from "../server/index.ts";
import { addCompletionCommand } from "./completion.ts";
import { addMoveCommand } from "./move/move.ts";
import { addBudgetsCommand } from "./server/budgets.ts";
import { addConfigCommands } from "./server/config.ts";
import { addEndpointsCommand } from "./server/endpoints.ts";
import { addJobsCommand } from "./server/jobs.ts";
import { addNodesCommand } from "./server/nodes.ts";
import { addRulesCommand } from "./server/rules.ts";
import { addSecretsCommand } from "./server/secrets.ts";
import { addBackupCommands } from "./store/backup-commands.ts";
import { addStoreCommands } from "./store/store.ts";
import { endWhenUnread } from "./terminal/closed-outputs.ts";
import { escapeOutputs } from "./terminal/escaped-outputs.ts";

function port(text: string): number {
  const number = integer(text);
  if (number > 65_535) throw new InvalidArgumentError("expected 0 to 65535");
  return number;
}

function integer(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("expected a non-negative integer");
  return Number(text);
}

/**
 * An empty name would turn its path into that of a different resource. The value of a setting may
 * be empty.
 */
function refuseEmptyArguments(command: Command): void {
  for (const [index, argument] of command.registeredArguments.entries()) {
    if (command.args[index] !== "" || argument.name() === "value") continue;
    command.error(`error: argument '${argument.name()}' is empty: expected a value`);
  }
}

/** Maximum number of listeners per signal. More indicate a leak, of which Node.js warns. */
const LISTENERS_MAX = 1_000;

const DATABASES = [
  "--databases <pattern...>",
  "with --all: names that match one of these, such as 'user-*' (default '*')",
] as const;
const EXCEPT = ["--except <pattern...>", "with --all: but not those that match these"] as const;

escapeOutputs();

const program = new Command("tandem")
  .description("A fault-tolerant replicator for everything that speaks the CouchDB protocol")
  .version(VERSION)
  .showHelpAfterError("Try it with --help for a list of options.")
  // Wrong use exits with 2, help and version with 0; subcommands inherit this.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));

program
  .command("serve")
  .description("run a node until it is told to stop (each option also as TANDEM_…)")
  .option("--port <number>", "port to listen on, 0 for any (default 5984)", port)
  .option("--bind-address <address>", "address to listen on (default 127.0.0.1)")
  .option("--data-dir <folder>", "where the embedded store keeps its files (default ./data)")
  .option("--config <file>", "configuration in CouchDB's INI format")
  .option("--store <name>", "lmdb, memory or foundationdb (default lmdb)")
  .option("--cluster-file <file>", "cluster file of FoundationDB")
  .option("--node-type <types>", "api_frontend, replication, or both (default both)")
  .option("--replication-processes <number>", "replication nodes beside the API", integer)
  .action(async (flags) => (await import("./serve.ts")).serve(flags));

program
  .command("replicate")
  .description("copy a database, without a server; exit code 0 only if nothing was left behind")
  .argument("<source>", "URL of a database")
  .argument("<target>", "URL of a database")
  .option("--create-target", "create the target first")
  .option("--continuous", "go on until interrupted")
  .option("--selector <json>", "copy what this Mango selector matches")
  .option("--skip-deleted", "leave deletions behind")
  .option("--max-document-bytes <bytes>", "leave documents with a larger body behind", integer)
  .option(
    "--max-attachment-bytes <bytes>",
    "leave documents with a larger attachment behind",
    integer,
  )
  .option("--doc-ids <file>", "copy these documents: a file with one id a line, or a JSON array")
  .option("--filter <name>", "copy what this filter of the source lets pass")
  .option("--since <seq>", "begin behind this update sequence")
  .option("--json", "print one JSON object at the end")
  .option("--all", "all databases of a server: SOURCE and TARGET are those of servers")
  .option(...DATABASES)
  .option(...EXCEPT)
  .option("--security", "with --all: copy the security objects to targets that it creates")
  .option(
    "--overwrite-security <pattern...>",
    "with --all: and to targets that match one of these, also if they existed before",
  )
  .action(async (source, target, flags) =>
    flags.all === true
      ? (await import("./replicate/replicate-all.ts")).replicateAll(source, target, flags)
      : (await import("./replicate/replicate.ts")).replicate(source, target, flags),
  );

program
  .command("verify")
  .description("compare two databases: documents, leaf revisions, attachments")
  .argument("<source>", "URL of a database")
  .argument("<target>", "URL of a database")
  .option("--repair", "copy what the target lacks, then compare again")
  .option("--json", "print one JSON object a line: each difference, then the figures")
  .option("--all", "compare two servers: all databases, and which there are")
  .option(...DATABASES)
  .option(...EXCEPT)
  .option("--security", "with --all: compare the security objects, too")
  .action(async (source, target, flags) => {
    const { verify, verifyAll } = await import("./replicate/verify.ts");
    return flags.all === true ? verifyAll(source, target, flags) : verify(source, target, flags);
  });

// A node continues even if the reader of its startup messages has gone.
program.hook("preAction", (_, command) => {
  refuseEmptyArguments(command);
  if (command.name() !== "serve") endWhenUnread();
});

addJobsCommand(program);
addNodesCommand(program);
addEndpointsCommand(program);
addConfigCommands(program);
addBudgetsCommand(program);
addBackupCommands(program);
addStoreCommands(program);
addCompletionCommand(program);
addRulesCommand(program);
addSecretsCommand(program);
addMoveCommand(program);

// A job's concurrent work waits for one signal; Node.js considers more than ten listeners a leak.
setMaxListeners(LISTENERS_MAX);
collectBetweenTurns();
leaveSomeGarbage();
await program.parseAsync();
