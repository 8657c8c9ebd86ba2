/**
 * `tandem config` and `tandem shares`: the configuration of a node, read and changed at runtime.
 */

import type { Command } from "commander";
import type { GroupRow, NodeSettings } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { printable, table } from "../terminal/table.ts";
import { columnsOf, wrapped } from "../terminal/width.ts";
import { answerWith, ForeignAnswerError, textAnswer } from "./answers.ts";
import type { Server, ServerFlags } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

interface ConfigFlags extends ServerFlags {
  readonly node: string;
}

interface Welcome {
  readonly vendor: { readonly name?: unknown };
}

type Sections = Readonly<Record<string, Readonly<Record<string, string>>>>;

const SHARES = "replicator.shares";
/** Indentation of the continuation lines of a value, as in an INI file. */
const INDENT = "    ";

export function addConfigCommands(program: Command): void {
  const config = program.command("config").description("read and change a node's configuration");
  const define = (usage: string, description: string): Command =>
    withServer(config.command(usage))
      .description(description)
      .option("--node <name>", "name of the node", "_local");
  define("list [section]", "list all settings, or those of a section").action(
    (section: string | undefined, flags: ConfigFlags) =>
      askServer(flags, async (server) => [await readSections(server, flags, section), print]),
  );
  define("get <section> <key>", "show one setting").action(
    (section: string, key: string, flags: ConfigFlags) =>
      askServer(flags, async (server) => [
        await server.ask("GET", pathOf(flags, section, key)),
        (value) => `${textAnswer(value)}\n`,
      ]),
  );
  define("set <section> <key> <value>", "change a setting and save it in local.ini").action(
    (section: string, key: string, value: string, flags: ConfigFlags) =>
      askServer(flags, async (server) => {
        const former = await server.ask("PUT", pathOf(flags, section, key), value);
        await warnIfIneffective(server, section, key);
        return [former, printFormer];
      }),
  );
  define(
    "unset <section> <key>",
    "remove a setting from local.ini, so that another file or the default applies",
  ).action((section: string, key: string, flags: ConfigFlags) =>
    askServer(flags, async (server) => [
      await server.ask("DELETE", pathOf(flags, section, key)),
      printFormer,
    ]),
  );
  addSharesCommand(program);
}

/**
 * Commands for shares: settings of `[replicator.shares]`, which apply to every node of a cluster.
 */
function addSharesCommand(program: Command): void {
  const shares = program
    .command("shares")
    .description("relative shares of job slots, by _replicator database or user");
  const flagsOf = (flags: ServerFlags): ConfigFlags => ({ ...flags, node: "_local" });
  withServer(shares.command("list"))
    .description("list groups whose shares differ from 100")
    .action((flags: ServerFlags) =>
      askServer(flags, async (server) => {
        const found = await server.ask("GET", pathOf(flagsOf(flags), SHARES));
        // Without shares, the response is an empty object, which servers other than Tandem may also
        // send. `/` identifies the server.
        await refuseOtherServers(server);
        return [found, printShares];
      }),
    );
  withServer(shares.command("usage"))
    .description("show groups with usage and jobs, longest waiting first")
    .action((flags: ServerFlags) =>
      askServer(flags, async (server) => [await server.groups.list().page(), printUsage]),
    );
  withServer(shares.command("set <group> <shares>"))
    .description("set the shares of a group; 200 shares get twice as many slots as 100")
    .action((group: string, value: string, flags: ServerFlags) =>
      askServer(flags, async (server) => [
        await server.ask("PUT", pathOf(flagsOf(flags), SHARES, group), value),
        printFormer,
      ]),
    );
}

/** Warns if a setting has no effect. The server accepts such a setting, as CouchDB does. */
async function warnIfIneffective(server: Server, section: string, key: string): Promise<void> {
  // Errors are ignored, because the setting has already been changed. CouchDB, for example, lacks
  // this resource.
  const found = await server.ask("GET", "/_tandem/settings").catch(() => undefined);
  const rows = (found as Partial<NodeSettings> | undefined)?.settings;
  if (!Array.isArray(rows)) return;
  const row = (rows as NodeSettings["settings"]).find(
    (each) => each.section === section && each.key === key,
  );
  if (row?.known === false && row.meaning !== null) {
    process.stderr.write(`tandem: ${printable(row.meaning)}\n`);
  }
}

/** Throws a ForeignAnswerError unless `/` identifies the server as Tandem. */
async function refuseOtherServers(server: Server): Promise<void> {
  const { vendor } = answerWith<Welcome>(await server.ask("GET", "/"), { vendor: "object" });
  if (vendor.name !== "Tandem") throw new ForeignAnswerError("the vendor Tandem");
}

async function readSections(
  server: Server,
  flags: ConfigFlags,
  section: string | undefined,
): Promise<Sections> {
  const found = await server.ask("GET", pathOf(flags, ...(section === undefined ? [] : [section])));
  return (section === undefined ? found : { [section]: found }) as Sections;
}

function pathOf({ node }: ConfigFlags, ...parts: readonly string[]): string {
  return ["/_node", node, "_config", ...parts]
    .map((part, index) => (index === 0 ? part : percentEncode(part)))
    .join("/");
}

function print(answer: unknown): string {
  const parts = Object.entries(answerWith<Sections>(answer, {})).map(([section, settings]) => {
    const lines = Object.entries(settings).map(([key, value]) =>
      wrapped(`${key} = ${value}`, columnsOf() - INDENT.length).join(`\n${INDENT}`),
    );
    return [`[${section}]`, ...lines, ""].join("\n");
  });
  return parts.join("\n");
}

function printShares(answer: unknown): string {
  const shares = Object.entries(answerWith<Readonly<Record<string, string>>>(answer, {}));
  if (shares.length === 0) return "every group has 100 shares\n";
  return table([["GROUP", "SHARES"], ...shares]);
}

function printUsage(answer: unknown): string {
  const { groups } = answerWith<{ readonly groups: readonly GroupRow[] }>(answer, {
    groups: "array",
  });
  const rows = groups.map(({ name, shares, usage_sec: usage, jobs, longest_wait_sec: wait }) => [
    name,
    ...[shares, `${usage} s`, jobs.running, jobs.pending, jobs.ended, `${wait} s`].map(String),
  ]);
  return table([["GROUP", "SHARES", "USAGE", "RUNNING", "PENDING", "ENDED", "WAIT"], ...rows]);
}

function printFormer(former: unknown): string {
  return textAnswer(former) === "" ? "done\n" : `done; the previous value was ${former}\n`;
}
