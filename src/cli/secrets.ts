/** `tandem secrets …`: the keys that seal the secrets of a server's store. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { askServer, type Server, type ServerFlags, withServer } from "./server-client.ts";

const POLL_MS = 500;

/** What `/_tandem/secrets` answers. */
interface Status {
  readonly sealing_key: string;
  readonly keys_in_use: readonly string[];
  readonly keys_here: readonly string[];
  readonly keys_from: string;
  readonly rotation: {
    readonly state: string;
    readonly seen: number;
    readonly renewed: number;
    readonly unneeded_keys: readonly string[];
    readonly error: string | null;
  };
}

export function addSecretsCommand(program: Command): void {
  const secrets = program.command("secrets").description("the keys that seal a server's secrets");
  const define = (usage: string, description: string): Command =>
    withServer(secrets.command(usage)).description(description);
  define("status", "which key seals, and which are needed").action((flags: ServerFlags) =>
    askServer(flags, async (server) => [await server.ask("GET", "/_tandem/secrets"), printStatus]),
  );
  define("rotate", "seal everything with a new key; go on with what was interrupted").action(
    (flags: ServerFlags) => askServer(flags, async (server) => [await rotate(server), printStatus]),
  );
}

/** Begins, and waits for the end. */
async function rotate(server: Server): Promise<Status> {
  let status = (await server.ask("POST", "/_tandem/secrets/_rotate")) as Status;
  while (["sealing", "waiting", "checking"].includes(status.rotation.state)) {
    await sleep(POLL_MS);
    status = (await server.ask("GET", "/_tandem/secrets")) as Status;
  }
  const { state, error } = status.rotation;
  if (state === "done") return status;
  // A node that was started again meanwhile knows nothing of it.
  throw new Error(`the rotation did not end (${error ?? state}): ask for it again, and it goes on`);
}

function printStatus(answer: unknown): string {
  const { sealing_key, keys_in_use, keys_here, keys_from, rotation } = answer as Status;
  const lines = [
    `key that seals:       ${sealing_key}`,
    `keys that are needed: ${keys_in_use.join(", ")}`,
    `keys of the node:     ${keys_here.join(", ")}, from ${keys_from}`,
  ];
  if (rotation.state === "done") {
    const unneeded = rotation.unneeded_keys.join(", ") || "none";
    lines.push(`sealed again:          ${rotation.renewed}`, `needed no more:       ${unneeded}`);
  } else if (rotation.state !== "idle") {
    lines.push(
      `rotation:             ${rotation.state}, ${rotation.seen} seen, ${rotation.renewed} sealed again`,
    );
  }
  return `${lines.join("\n")}\n`;
}
