/**
 * `tandem secrets …`: the keys that seal the secrets of a server's store, and the credentials of
 * its jobs.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { BulkCommand, ReplacedCredentials, SecretsStatus } from "../../contract/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { counted } from "../terminal/counted.ts";
import { printable } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith } from "./answers.ts";
import { shownCommand } from "./bulk-commands.ts";
import { readAuthFile, readSecretFile } from "./secret-files.ts";
import type { Printer, Server, ServerFlags, TypedServer } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

const POLL_MS = 500;

interface ReplaceFlags extends ServerFlags {
  readonly host: string;
  readonly username: string;
  readonly newUsername?: string;
  readonly passwordFile?: string;
  readonly authFile?: string;
  readonly side?: string;
  readonly owner?: string;
  readonly failing?: boolean;
  readonly dryRun?: boolean;
}

export function addSecretsCommand(program: Command): void {
  const secrets = program
    .command("secrets")
    .description("manage the sealing keys of a server and the credentials of its jobs");
  const define = (usage: string, description: string): Command =>
    withServer(secrets.command(usage)).description(description);
  define("status", "show the current sealing key and all keys in use").action(
    (flags: ServerFlags) =>
      askServer(flags, async (server) => [
        await server.ask("GET", "/_tandem/secrets"),
        printStatus,
      ]),
  );
  define(
    "rotate",
    "re-encrypt all secrets with a new key; continues an interrupted rotation",
  ).action((flags: ServerFlags) =>
    askServer(flags, async (server) => [await rotate(server), printStatus]),
  );
  define("replace", "replace the password of an account in all jobs")
    .requiredOption("--host <url>", "the server that the jobs log in to: https://couch.example")
    .requiredOption("--username <name>", "current user or OAuth client id of the jobs")
    .option("--new-username <name>", "new user of the jobs (default: the same)")
    .option("--password-file <file>", "file with the new password; - reads standard input")
    .option("--auth-file <file>", "file with a new `auth` object as JSON, instead of a password")
    .option("--side <side>", "only this side of the jobs: source or target")
    .option("--owner <name>", "only jobs of this owner, with any current password")
    .option("--failing", "only jobs and rules whose last login at this server was rejected")
    .option("--dry-run", "only count the jobs")
    .action((flags: ReplaceFlags) => askServer(flags, (server) => replace(server, flags)));
}

/**
 * Replaces the credentials of jobs. The password comes from a file or standard input, because every
 * user of the machine can see arguments.
 */
async function replace(
  server: TypedServer,
  flags: ReplaceFlags,
): Promise<readonly [answer: unknown, print: Printer]> {
  const { host, username, side, owner } = flags;
  const body = {
    host,
    username,
    auth: newCredentials(flags),
    ...(owner === undefined ? {} : { owner }),
  };
  const sideOnly = side === undefined ? {} : { side };
  const filters = flags.failing === true ? failingAt(host, side) : {};
  const send = async (query: Readonly<Record<string, string>>, more = {}) => {
    const path = `/_tandem/credentials/_replace?${new URLSearchParams(query)}`;
    const { answer } = await server.create(path, { ...body, ...more });
    return answerWith<ReplacedCredentials>(answer, REPLACED);
  };
  // If options narrow the selection, counts all jobs with the given login before the replacement: a
  // replaced job might log in as another user, and would then be missing from the count.
  const narrowing = [
    ...(flags.failing === true ? ["--failing"] : []),
    ...(side === undefined ? [] : [`--side ${side}`]),
  ];
  const all = narrowing.length === 0 ? undefined : await send({ dry_run: "true" });
  const dryRun = flags.dryRun === true ? { dry_run: "true" } : {};
  const found = await send({ ...filters, ...dryRun }, sideOnly);
  const { matched, rules, withheld } = all ?? found;
  if (matched === 0 && rules.length === 0 && withheld === undefined) {
    process.exitCode = 1;
    return [found, () => `${nothingFound(flags)}\n`];
  }
  const otherCount = all === undefined ? 0 : Math.max(0, all.matched - found.matched);
  const flagsText = narrowing.join(" ");
  const hint = counted(
    otherCount,
    `other job logs in to ${host} as ${username}; it does not match ${flagsText} and was not changed\n`,
    `other jobs log in to ${host} as ${username}; they do not match ${flagsText} and were not changed\n`,
  );
  const print: Printer = (answer) => printReplaced(answer) + (otherCount === 0 ? "" : hint);
  if (found.id === undefined) return [found, print];
  const { changed, failed: refused } = (await shownCommand(server, found.id)) as BulkCommand;
  return [{ ...found, changed, refused }, print];
}

function newCredentials({
  username,
  newUsername,
  passwordFile,
  authFile,
}: ReplaceFlags): Readonly<Record<string, unknown>> {
  if (authFile !== undefined) {
    if (passwordFile !== undefined || newUsername !== undefined) {
      throw new WrongUse("--auth-file cannot be combined with --password-file or --new-username");
    }
    return readAuthFile("--auth-file", authFile);
  }
  if (passwordFile === undefined) {
    throw new WrongUse(
      "--password-file: name a file with the new password, or - for standard input",
    );
  }
  const password = readSecretFile("--password-file", passwordFile, "password");
  return { basic: { username: newUsername ?? username, password } };
}

function nothingFound({ host, username, owner }: ReplaceFlags): string {
  const ofOwner = owner === undefined ? "" : ` of the owner ${owner}`;
  return `no job${ofOwner} logs in to ${maskCredentials(host)} as ${username}; nothing was changed`;
}

/** The filter for jobs whose last failure was a rejected login at the server. */
function failingAt(host: string, side: string | undefined): Readonly<Record<string, string>> {
  const url = URL.canParse(host) ? new URL(host) : undefined;
  if (url === undefined) throw new WrongUse(`--host ${host}: expected an http:// or https:// URL`);
  const exactly = url.port === "" ? `${url.host}:` : url.host;
  return { error: "unauthorized", host: exactly, ...(side === undefined ? {} : { side }) };
}

const REPLACED = { matched: "number", rules: "array" } as const;

function printReplaced(answer: unknown): string {
  const { matched, documents, transient, changed, refused, rules, withheld } =
    answerWith<ReplacedCredentials>(answer, REPLACED);
  const named =
    rules.length === 0
      ? ""
      : `, and the ${rules.length === 1 ? "rule" : "rules"} ${rules.join(", ")}`;
  const found = `${counted(matched, "job")} found: ${documents} with a document, ${transient} without${named}`;
  const hint =
    withheld === undefined
      ? ""
      : `skipped ${counted(withheld.count, "job")} of other users, with a different credential; to include them, name the owner with --owner (${printable(withheld.owners.join(", "))})\n`;
  if (changed === undefined) return `${found}; nothing was changed\n${hint}`;
  return `${found}; ${changed} changed, ${refused} refused\n${hint}`;
}

/** Starts a rotation and waits for its end. */
async function rotate(server: Server): Promise<SecretsStatus> {
  let status = statusOf(await server.ask("POST", "/_tandem/secrets/_rotate"));
  while (["sealing", "waiting", "checking"].includes(status.rotation.state)) {
    await sleep(POLL_MS);
    status = statusOf(await server.ask("GET", "/_tandem/secrets"));
  }
  const { state, error } = status.rotation;
  if (state === "done") return status;
  // The rotation failed, or the node was restarted meanwhile and has no progress to report.
  throw new Error(
    `the rotation did not finish (${error ?? state}); repeat the command to continue`,
  );
}

function statusOf(answer: unknown): SecretsStatus {
  return answerWith(answer, { keys_in_use: "array", keys_here: "array", rotation: "object" });
}

function printStatus(answer: unknown): string {
  const { sealing_key, keys_in_use, keys_here, keys_from, rotation } = statusOf(answer);
  const lines = [
    `sealing key:       ${sealing_key}`,
    `keys in use: ${keys_in_use.join(", ")}`,
    `keys of the node:     ${keys_here.join(", ")}, from ${keys_from}`,
  ];
  if (rotation.state === "done") {
    const unneeded = rotation.unneeded_keys.join(", ") || "none";
    lines.push(`re-encrypted: ${rotation.renewed}`, `no longer needed:       ${unneeded}`);
  } else if (rotation.state !== "idle") {
    lines.push(
      `rotation: ${rotation.state}, ${rotation.seen} checked, ${rotation.renewed} re-encrypted`,
    );
  }
  return `${lines.join("\n")}\n`;
}
