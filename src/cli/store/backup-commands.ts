/** Defines `tandem backup` and `tandem restore`. */
import type { Command } from "commander";
import type { BackupFlags, RestoreFlags } from "./backup.ts";

/** Exit codes: 1 for failures, including a damaged backup; 2 for usage errors. */
export function addBackupCommands(program: Command): void {
  const backup = program
    .command("backup")
    .description("back up the embedded store to a file, even while nodes use it")
    .argument(
      "<file>",
      "path of a new file, or a folder, in which a file with a generated name is created",
    )
    .option("--data-dir <folder>", "folder of the embedded store (default ./data)")
    .option("--config <file>", "configuration in CouchDB's INI format")
    .action((file: string, flags: BackupFlags) => run(({ backUp }) => backUp(file, flags)));
  backup
    .command("verify")
    .description("read and check a backup")
    .argument("<file>", "a backup")
    .action((file: string) => run(({ verifyBackup }) => verifyBackup(file)));
  program
    .command("restore")
    .description("restore a store from a backup")
    .argument("<file>", "a backup")
    .requiredOption("--data-dir <folder>", "folder of the restored store")
    .option("--replace", "replace an existing store; its file is kept next to the new one")
    .action((file: string, flags: RestoreFlags) => run(({ restore }) => restore(file, flags)));
}

/** Runs a command and prints its error. Loads the modules of the store lazily. */
async function run(work: (backup: typeof import("./backup.ts")) => Promise<void>): Promise<void> {
  try {
    await work(await import("./backup.ts"));
  } catch (error) {
    const { reportError } = await import("../terminal/describe-error.ts");
    reportError(error);
  }
}
