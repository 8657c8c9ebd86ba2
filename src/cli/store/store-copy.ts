/** Implements `tandem store copy`: copies all rows of the embedded store to a cluster, or back. */
import { resolve } from "node:path";
import {
  ClusterCopyTarget,
  type CopyTarget,
  checkLmdbStore,
  createSystemRuntime,
  LmdbCopyTarget,
  openLmdbEngine,
} from "../../host/index.ts";
import { KeyValueStore } from "../../kv/index.ts";
import {
  copyWholeStore,
  openCluster,
  placeOf,
  readConfig,
  readRecords,
} from "../../server/index.ts";
import { counted } from "../terminal/counted.ts";
import { Progress } from "../terminal/progress.ts";

export interface StoreCopyFlags {
  readonly to: "lmdb" | "foundationdb";
  readonly dataDir?: string;
  readonly config?: string;
  readonly clusterFile?: string;
}

/**
 * Time to watch for renewed leases. A running node renews its lease five times per
 * `worker_lease_sec`, so nodes with leases of up to half a minute are detected.
 */
const QUIET_MS = 6_000;

export async function copyStoreTo({
  to,
  dataDir,
  clusterFile,
  config: configFile,
}: StoreCopyFlags): Promise<void> {
  const config = readConfig(
    {
      ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
      ...(clusterFile === undefined ? {} : { clusterFile }),
      ...(configFile === undefined ? {} : { configFile }),
    },
    process.env,
  );
  const directory = resolve(config.dataDirectory);
  if (to === "foundationdb") checkLmdbStore(directory);
  const runtime = createSystemRuntime();
  const cluster = await openCluster(runtime, config);
  const opened: { close(): Promise<void> }[] = [cluster];
  try {
    const places = {
      lmdb: directory,
      foundationdb: placeOf({ ...config, store: "foundationdb" }),
    };
    await readRecords(cluster, places.foundationdb);
    let source = cluster;
    let target: CopyTarget;
    if (to === "foundationdb") {
      source = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
      opened.push(source);
      target = new ClusterCopyTarget(cluster);
    } else target = new LmdbCopyTarget(directory);
    opened.push(target);
    const progress = new Progress(`copying to ${to}`, process.stderr, "rows");
    const summary = await copyWholeStore({
      clock: runtime.clock,
      source,
      sourcePlace: to === "lmdb" ? places.foundationdb : places.lmdb,
      target,
      quietMs: QUIET_MS,
      onRows: (rowCount) => progress.show(rowCount, undefined),
    });
    const { rowCount, byteCount } = summary;
    process.stdout.write(
      `${counted(rowCount, "row")}, ${counted(byteCount, "byte")} copied to ${to} and compared\n`,
    );
  } finally {
    // An unfinished target is removed before its store is closed.
    for (const each of opened.toReversed()) await each.close();
  }
}
