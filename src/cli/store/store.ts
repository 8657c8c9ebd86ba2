/** Defines `tandem store`. */
import { type Command, Option } from "commander";
import type { StoreCopyFlags } from "./store-copy.ts";

/** Exit codes: 1 for failures, 2 for usage errors. */
export function addStoreCommands(program: Command): void {
  program
    .command("store")
    .description("move the store of a single node to a cluster, or back")
    .command("copy")
    .description(
      "copy the whole store between LMDB and FoundationDB while no node runs, then compare",
    )
    .addOption(
      new Option("--to <store>", "the target store, which must be empty")
        .choices(["lmdb", "foundationdb"])
        .makeOptionMandatory(),
    )
    .option("--data-dir <folder>", "folder of the embedded store (default ./data)")
    .option("--cluster-file <file>", "cluster file of FoundationDB")
    .option("--config <file>", "configuration in CouchDB's INI format")
    .action(async (flags: StoreCopyFlags) => {
      try {
        await (await import("./store-copy.ts")).copyStoreTo(flags);
      } catch (error) {
        const { reportError } = await import("../terminal/describe-error.ts");
        reportError(error);
      }
    });
}
