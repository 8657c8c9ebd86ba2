/** Implements `tandem upgrade --check`: checks whether this version is compatible with a store. */
import type { UpgradeStatus } from "../../contract/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import { PROGRAM, readConfig, readStorePlace, readUpgrade, refusalOf } from "../../server/index.ts";
import { reportError } from "../terminal/describe-error.ts";
import { WrongUse } from "../terminal/wrong-use.ts";

export interface StoreFlags {
  readonly dataDir?: string;
  readonly config?: string;
  readonly store?: string;
  readonly clusterFile?: string;
  readonly json?: boolean;
}

/** The state of a store and, if this program must not use it, the reason. */
export interface UpgradeCheck extends UpgradeStatus {
  readonly refused: string | null;
}

/** Checks a store directly, without a running server, and prints the result. */
export async function checkStore(
  { dataDir, config: configFile, store, clusterFile, json }: StoreFlags,
  print: (check: UpgradeCheck) => string,
): Promise<void> {
  const options = {
    ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
    ...(configFile === undefined ? {} : { configFile }),
    ...(store === undefined ? {} : { store }),
    ...(clusterFile === undefined ? {} : { clusterFile }),
  };
  try {
    if (dataDir === "") throw new WrongUse("--data-dir is empty; expected a folder");
    const { store: name, dataDirectory } = readStorePlace(options, process.env);
    // For an embedded store, the check needs no other settings and no sealing key. The rest of the
    // configuration is therefore not read.
    const { clusterFile: file, foundationDb } =
      name === "foundationdb" ? readConfig(options, process.env) : NO_CLUSTER;
    const place = { store: name, dataDirectory, clusterFile: file, foundationDb };
    const check = checked(await readUpgrade(createSystemRuntime(), place));
    process.stdout.write(json === true ? `${JSON.stringify(check)}\n` : print(check));
  } catch (error) {
    reportError(error);
  }
}

const NO_CLUSTER = {
  clusterFile: undefined,
  foundationDb: { apiVersion: undefined, headerVersion: undefined, prefix: undefined },
} as const;

/** Adds the reason if this program must not use the store, and sets the exit code. */
export function checked(status: UpgradeStatus): UpgradeCheck {
  const refused = refusalOf(status, PROGRAM) ?? null;
  if (refused !== null) process.exitCode = 2;
  else if (status.nodes.some(({ blocks }) => blocks)) process.exitCode = 1;
  return { ...status, refused };
}
