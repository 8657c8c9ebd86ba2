/**
 * Common parts of the commands for a running server: `tandem jobs`, `nodes`, `endpoints`, `config`,
 * `shares`, `budgets`, `rules` and `secrets`.
 */
import { type Command, Option } from "commander";
import type { ServerFlags, ServerWork } from "./server-client.ts";

const SERVER_DEFAULT = "http://127.0.0.1:5984";

/** Adds the common options. */
export function withServer(command: Command): Command {
  return command
    .addOption(
      new Option("--server <url>", "URL of the server")
        .default(SERVER_DEFAULT)
        .env("TANDEM_SERVER"),
    )
    .option("--json", "print the JSON of the server");
}

/** The flags with these names that the user has given. */
export function given(flags: object, names: readonly string[]): object {
  const all = new Map(Object.entries(flags));
  return Object.fromEntries(
    names.filter((name) => all.has(name)).map((name) => [name, all.get(name)]),
  );
}

/**
 * Runs the requests and prints the response. Loads the client lazily, because help and completion
 * do not need it.
 */
export async function askServer(flags: ServerFlags, work: ServerWork): Promise<void> {
  const { workWithServer } = await import("./server-client.ts");
  await workWithServer(flags, work);
}
