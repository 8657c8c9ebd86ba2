/**
 * `tandem upgrade`: shows the format of a store, whether this version is compatible with it, and
 * the effects of enabling the next format.
 */
import { type Command, Option } from "commander";
import type { UpgradeStatus } from "../../contract/index.ts";
import type { StoreFlags, UpgradeCheck } from "../store/upgrade-check.ts";
import { table } from "../terminal/table.ts";
import { answerWith } from "./answers.ts";
import type { Printer, Server, ServerFlags } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

interface UpgradeFlags extends ServerFlags, StoreFlags {
  readonly check?: boolean;
  readonly enable?: boolean;
}

const STATUS = { nodes: "array", known_formats: "array", version: "string" } as const;

/**
 * Exit codes of `--check`: 1 if nodes prevent the newest format, 2 if this program must not use the
 * store.
 */
export function addUpgradeCommand(program: Command): void {
  withServer(program.command("upgrade"))
    .description("show the format of the store, or enable a newer one once all nodes support it")
    .option("--check", "show what an upgrade to this program would do (default)")
    .addOption(
      new Option("--enable", "enable the highest format that all nodes support").conflicts([
        "check",
        "dataDir",
        "config",
        "store",
        "clusterFile",
      ]),
    )
    .option(
      "--data-dir <folder>",
      "check the embedded store in this folder, without asking a server",
    )
    .option(
      "--config <file>",
      "check the store that this configuration file names, without asking a server",
    )
    .option(
      "--store <name>",
      "kind of the store to check without asking a server: lmdb or foundationdb",
    )
    .option(
      "--cluster-file <file>",
      "cluster file of FoundationDB, for a check without asking a server",
    )
    .action(upgrade);
}

async function upgrade(flags: UpgradeFlags): Promise<void> {
  const { enable, dataDir, config, store, clusterFile } = flags;
  if ([dataDir, config, store, clusterFile].some((flag) => flag !== undefined)) {
    return (await import("../store/upgrade-check.ts")).checkStore(flags, printCheck);
  }
  await askServer(flags, enable === true ? enableFormat : checkServer);
}

async function enableFormat(server: Server): Promise<readonly [unknown, Printer]> {
  const answer = await server.ask("POST", "/_tandem/upgrade/_enable");
  const { format } = answerWith<UpgradeStatus>(answer, STATUS);
  return [answer, () => `the store has format ${format}\n`];
}

async function checkServer(server: Server): Promise<readonly [unknown, Printer]> {
  const answer = await server.ask("GET", "/_tandem/upgrade");
  const { checked } = await import("../store/upgrade-check.ts");
  return [checked(answerWith<UpgradeStatus>(answer, STATUS)), printCheck];
}

function printCheck(answer: unknown): string {
  const check = answer as UpgradeCheck;
  const { format, nodes } = check;
  const rows = nodes.map(({ name, pid, version, formats, blocks }) => [
    name,
    pid,
    version ?? "-",
    formats === null ? "-" : `${formats.min} to ${formats.max}`,
    blocks ? "yes" : "no",
  ]);
  const heading = ["NODE", "PROCESS", "VERSION", "FORMATS", "BLOCKS"];
  const lines = [
    format === null ? "the store is empty" : `the store has format ${format}`,
    check.refused ?? "this version is compatible with the store",
    ...enabling(check),
  ];
  return `${lines.join("\n")}\n${nodes.length === 0 ? "" : table([heading, ...rows], { whole: [0] })}`;
}

/** Returns the lines on whether the next format can be enabled. */
function enabling({ can_enable, known_formats, nodes }: UpgradeCheck): readonly string[] {
  const described = (number: number): string => {
    const facts = known_formats.find(({ format }) => format === number);
    return `${facts?.brings}; once it is enabled, programs older than ${facts?.since} can no longer use the store`;
  };
  if (can_enable !== null) {
    return [`format ${can_enable} can be enabled: ${described(can_enable)}`];
  }
  const next = known_formats.find(({ enabled }) => !enabled);
  if (next === undefined || !nodes.some(({ blocks }) => blocks)) return [];
  return [
    `format ${next.format} requires newer programs on the nodes marked in column BLOCKS: ${described(next.format)}`,
  ];
}
