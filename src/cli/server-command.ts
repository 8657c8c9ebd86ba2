/** What the commands that ask a server have in common: `tandem jobs`, `nodes`, `endpoints`, `config`, `shares`, `budgets`, `rules` and `secrets`. */
import { type Command, Option } from "commander";
import type { FetchRequest } from "../http-client/index.ts";

const SERVER_DEFAULT = "http://127.0.0.1:5984";

export interface ServerFlags {
  readonly server: string;
  readonly json?: boolean;
}

export interface Server {
  /** The server's answer. Throws when it is an error, and when there is none. */
  ask(method: FetchRequest["method"], path: string, body?: unknown): Promise<unknown>;
}

/** Makes text of what a server answered. */
export type Printer = (answer: unknown) => string;

/** What a command asks a server, and how its last answer is printed. */
export type ServerWork = (server: Server) => Promise<readonly [answer: unknown, print: Printer]>;

/** Adds the options that each of these commands has. */
export function withServer(command: Command): Command {
  return command
    .addOption(
      new Option("--server <url>", "the server").default(SERVER_DEFAULT).env("TANDEM_SERVER"),
    )
    .option("--json", "print the server's JSON");
}

/** Does the work, and prints what the server answers. Loads the client only now: help and completion need none. */
export async function askServer(flags: ServerFlags, work: ServerWork): Promise<void> {
  const { workWithServer } = await import("./server-client.ts");
  await workWithServer(flags, work);
}
