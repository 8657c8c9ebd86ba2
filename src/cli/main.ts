#!/usr/bin/env node
/**
 * The command `tandem`. Loads only the definitions of the commands; each command loads its
 * implementation when it is called, so that `tandem jobs list` does not load a server's modules.
 */
import { setMaxListeners } from "node:events";
import { Command, InvalidArgumentError } from "commander";
import { boundGarbage, type ConnectTo, parseConnectTo } from "../host/index.ts";
import { VERSION } from "../server/index.ts";
import { addCompletionCommand } from "./completion.ts";
import { addManualCommand } from "./manual.ts";
import { addMoveCommand } from "./move/move.ts";
import { addAlertsCommand } from "./server/alerts.ts";
import { addBudgetsCommand } from "./server/budgets.ts";
import { addConfigCommands } from "./server/config.ts";
import { addConflictPolicyCommands } from "./server/conflict-policy.ts";
import { addEndpointsCommand } from "./server/endpoints.ts";
import { addJobsCommand } from "./server/jobs.ts";
import { addNodesCommand } from "./server/nodes.ts";
import { addRulesCommand } from "./server/rules.ts";
import { addSecretsCommand } from "./server/secrets.ts";
import { addUpgradeCommand } from "./server/upgrade.ts";
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

function connectTo(text: string, before: readonly ConnectTo[] = []): readonly ConnectTo[] {
  const override = parseConnectTo(text);
  if (override !== undefined) return [...before, override];
  throw new InvalidArgumentError(
    "expected HOST:PORT:TARGET:PORT, such as couch.example:443:10.0.0.5:8443",
  );
}

/**
 * Rejects empty arguments, because a path with an empty name addresses a different resource. Only
 * the value of a setting is allowed to be empty.
 */
function refuseEmptyArguments(command: Command): void {
  for (const [index, argument] of command.registeredArguments.entries()) {
    if (command.args[index] !== "" || argument.name() === "value") continue;
    command.error(`error: argument '${argument.name()}' is empty: expected a value`);
  }
}

/** Minimum width of the column of descriptions, small so that help fits into a narrow terminal. */
const HELP_TEXT_WIDTH_MIN = 20;

/** Maximum number of listeners per signal. Node.js warns of a leak if there are more. */
const LISTENERS_MAX = 1_000;

const DATABASES = [
  "--databases <pattern...>",
  "with --all: only databases whose names match one of these, such as 'user-*' (default '*')",
] as const;
const EXCEPT = [
  "--except <pattern...>",
  "with --all: exclude databases whose names match one of these",
] as const;
const CONNECT_TO = [
  "--connect-to <address>",
  "HOST:PORT:TARGET:PORT: connect to TARGET for URLs of HOST; may be repeated",
  connectTo,
] as const;
const SOURCE_AUTH = [
  "--source-auth-file <file>",
  "file with the `auth` object of SOURCE as JSON, such as an OAuth client",
] as const;
const TARGET_AUTH = [
  "--target-auth-file <file>",
  "file with the `auth` object of TARGET as JSON",
] as const;

escapeOutputs();

const program = new Command("tandem")
  .description("A fault-tolerant replicator for everything that speaks the CouchDB protocol")
  .version(VERSION)
  // Otherwise `tandem conflicts` would parse options of its subcommands as its own.
  .enablePositionalOptions()
  .configureHelp({ minWidthToWrap: HELP_TEXT_WIDTH_MIN })
  .showHelpAfterError("Try it with --help for a list of options.")
  // Usage errors exit with 2, help and version with 0; subcommands inherit this.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));

program
  .command("serve")
  .description("run a node (each option can also be set as TANDEM_…)")
  .option("--port <number>", "port to listen on, 0 for any free port (default 5984)", port)
  .option("--bind-address <address>", "address to listen on (default 127.0.0.1)")
  .option("--data-dir <folder>", "folder of the embedded store (default ./data)")
  .option("--config <file>", "configuration in CouchDB's INI format")
  .option("--store <name>", "lmdb, memory or foundationdb (default lmdb)")
  .option("--cluster-file <file>", "cluster file of FoundationDB")
  .option("--node-type <types>", "api_frontend, replication, or both (default both)")
  .option(
    "--replication-processes <number>",
    "number of processes that run replications, in addition to the API process",
    integer,
  )
  .action(async (flags) => (await import("./serve.ts")).serve(flags));

program
  .command("demo")
  .description("copy sample databases on a temporary node, and compare them")
  .action(async () => {
    // Printed first, because loading the node takes seconds on a slow machine.
    process.stdout.write(
      "Tandem's demo: starting a node on an embedded store in a temporary folder\n",
    );
    await (await import("./demo.ts")).demo();
  });

program
  .command("replicate")
  .description("copy a database without a server; exit code 0 only if no document failed")
  .argument("<source>", "URL of a database")
  .argument("<target>", "URL of a database")
  .option("--create-target", "create the target database first")
  .option("--continuous", "continue until interrupted")
  .option("--selector <json>", "copy only documents that match this Mango selector")
  .option("--skip-deleted", "skip deleted documents")
  .option("--max-document-bytes <bytes>", "skip documents with a larger body", integer)
  .option("--max-attachment-bytes <bytes>", "skip documents with a larger attachment", integer)
  .option(
    "--doc-ids <file>",
    "copy only these documents: a file with one id per line, or a JSON array",
  )
  .option("--filter <name>", "copy only documents accepted by this filter function of the source")
  .option(
    "--since <seq>",
    "start after this update sequence, or with the changes after this time (UTC)",
  )
  .option(...SOURCE_AUTH)
  .option(...TARGET_AUTH)
  .option(...CONNECT_TO)
  .option("--json", "print one JSON object at the end")
  .option("--all", "copy all databases of a server: SOURCE and TARGET are URLs of servers")
  .option(...DATABASES)
  .option(...EXCEPT)
  .option("--security", "with --all: copy the security objects to the targets that are created")
  .option(
    "--overwrite-security <pattern...>",
    "with --all: also copy the security objects to existing targets whose names match one of these patterns",
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
  .option("--repair", "copy missing documents to the target, then compare again")
  .option(...SOURCE_AUTH)
  .option(...TARGET_AUTH)
  .option(...CONNECT_TO)
  .option("--json", "print one JSON object per line: each difference, then the totals")
  .option("--all", "compare two servers: their lists of databases, and each database")
  .option(...DATABASES)
  .option(...EXCEPT)
  .option("--security", "with --all: also compare the security objects")
  .action(async (source, target, flags) => {
    const { verify, verifyAll } = await import("./replicate/verify.ts");
    return flags.all === true ? verifyAll(source, target, flags) : verify(source, target, flags);
  });

const conflicts = program
  .command("conflicts")
  .enablePositionalOptions()
  .description("list a database's documents that have conflicts")
  .argument("<url>", "URL of a database of any CouchDB")
  .option("--since <seq>", "read only changes after this update sequence, or since a time")
  .option("--auth-file <file>", "file with the `auth` object of URL as JSON")
  .option(...CONNECT_TO)
  .option("--json", "print one JSON object per line: each document, then the totals")
  .action(async (url, flags) => {
    await (await import("./replicate/conflicts.ts")).listConflicts(url, flags);
  });

addConflictPolicyCommands(conflicts);

// Commands end when the reader of their output exits. `serve` does not, because a node must outlive
// the reader of its startup messages.
program.hook("preAction", (_, command) => {
  refuseEmptyArguments(command);
  if (command.name() !== "serve") endWhenUnread();
});

addJobsCommand(program);
addNodesCommand(program);
addEndpointsCommand(program);
addAlertsCommand(program);
addConfigCommands(program);
addBudgetsCommand(program);
addBackupCommands(program);
addStoreCommands(program);
addCompletionCommand(program);
addManualCommand(program);
addRulesCommand(program);
addSecretsCommand(program);
addMoveCommand(program);
addUpgradeCommand(program);

// All concurrent parts of a job listen to one signal. By default, Node.js reports more than ten
// listeners as a leak.
setMaxListeners(LISTENERS_MAX);
boundGarbage();
await program.parseAsync();
