/** Defines `tandem store`. */
import { type Command, Option } from "commander";
import type { StoreCompactFlags } from "./store-compact.ts";
import type { StoreCopyFlags } from "./store-copy.ts";

/** Exit codes: 1 for failures, 2 for usage errors. */
export function addStoreCommands(program: Command): void {
  const store = program
    .command("store")
    .description("compact the store, or move it to a cluster or back");
  store
    .command("compact")
    .description("rewrite the embedded store without its free space while no node runs")
    .option("--data-dir <folder>", "folder of the embedded store (default ./data)")
    .option("--config <file>", "configuration in CouchDB's INI format")
    .action((flags: StoreCompactFlags) =>
      run(async () => (await import("./store-compact.ts")).compactStore(flags)),
    );
  store
    .command("copy")
    .description(
      "copy the whole store between LMDB and FoundationDB while no node runs, and compare the copy",
    )
    .addOption(
      new Option("--to <store>", "the target store, which must be empty")
        .choices(["lmdb", "foundationdb"])
        .makeOptionMandatory(),
    )
    .option("--data-dir <folder>", "folder of the embedded store (default ./data)")
    .option("--cluster-file <file>", "cluster file of FoundationDB")
    .option("--config <file>", "configuration in CouchDB's INI format")
    .action((flags: StoreCopyFlags) =>
      run(async () => (await import("./store-copy.ts")).copyStoreTo(flags)),
    );
}

/** Runs a command, and prints its error if it fails. */
async function run(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { reportError } = await import("../terminal/describe-error.ts");
    reportError(error);
  }
}
