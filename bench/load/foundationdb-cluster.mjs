/**
 * A FoundationDB cluster of several processes on this machine, each of which counts as a separate
 * machine. FOUNDATIONDB_BIN is the folder of `fdbserver` and `fdbcli`.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { processorSec } from "../nodes/measures.mjs";
import { portOf } from "../support/port-of.mjs";

const READY_MS_MAX = 60_000;

export class FoundationDbCluster {
  #bin;
  #directory;
  #processes = [];
  #flags = [];

  /**
   * Starts a cluster on the `ssd` engine. Its first `coordinatorCount` processes are the
   * coordinators. `flags` are additional flags for each `fdbserver`.
   */
  static async open(directory, { processCount, redundancy, coordinatorCount = 1, flags = [] }) {
    const cluster = new FoundationDbCluster();
    cluster.#flags = flags;
    cluster.#bin = process.env.FOUNDATIONDB_BIN;
    if (cluster.#bin === undefined) throw new Error("FOUNDATIONDB_BIN names no folder");
    cluster.#directory = directory;
    const ports = await freePorts(processCount);
    cluster.#processes = ports.map((port) => ({ port, child: undefined }));
    const coordinators = cluster.addresses.slice(0, coordinatorCount);
    writeFileSync(cluster.file, `bench:${process.pid}@${coordinators.join(",")}\n`);
    for (let index = 0; index < processCount; index++) cluster.start(index);
    cluster.command(`configure new ${redundancy} ssd`);
    await cluster.onceHealthy();
    return cluster;
  }

  /** The cluster file. */
  get file() {
    return join(this.#directory, "fdb.cluster");
  }

  get count() {
    return this.#processes.length;
  }

  get addresses() {
    return this.#processes.map(({ port }) => `127.0.0.1:${port}`);
  }

  port(index) {
    return this.#processes[index].port;
  }

  /** Restarts a stopped process with its files. */
  start(index) {
    const folder = join(this.#directory, `fdb-${index}`);
    mkdirSync(folder, { recursive: true });
    const flags = [
      ["--cluster_file", this.file],
      ["--public_address", this.addresses[index]],
      ["--datadir", folder],
      ["--logdir", folder],
      ["--locality_machineid", `machine-${index}`],
      ["--locality_zoneid", `zone-${index}`],
      ["--cache_memory", "200MiB"],
      ["--memory", "2GiB"],
      this.#flags,
    ].flat();
    this.#processes[index].child = spawn(join(this.#bin, "fdbserver"), flags, { stdio: "ignore" });
  }

  /** Sends a signal to a process. */
  signal(index, signal) {
    this.#processes[index].child.kill(signal);
  }

  async kill(index) {
    const { child } = this.#processes[index];
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Returns the CPU time of the running processes. */
  processorSec() {
    return this.#processes.reduce((sum, process) => sum + processorSec(process), 0);
  }

  /** Runs a command in `fdbcli`. Returns its output. */
  command(text) {
    const flags = ["-C", this.file, "--timeout", "60", "--exec", text];
    return execFileSync(join(this.#bin, "fdbcli"), flags, { encoding: "utf8" });
  }

  /** Resolves when the database returns a read version to `fdbcli`. */
  async onceAnswering() {
    const flags = ["-C", this.file, "--timeout", "240", "--exec", "getversion"];
    await once(spawn(join(this.#bin, "fdbcli"), flags, { stdio: "ignore" }), "exit");
  }

  status() {
    return JSON.parse(this.command("status json"));
  }

  /** Resolves when the database is available with all copies of its data. */
  async onceHealthy() {
    const untilMs = performance.now() + READY_MS_MAX;
    for (;;) {
      const { client, cluster } = this.status();
      const isHealthy = client.database_status.available && cluster.data?.state?.healthy === true;
      if (isHealthy) return;
      if (performance.now() > untilMs)
        throw new Error("The cluster did not become healthy in time");
      await pause(500);
    }
  }

  async close() {
    await Promise.all(this.#processes.map((_, index) => this.kill(index)));
  }
}

/** Ports that are free now. No other program is expected to take them during the benchmark. */
async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = [];
  for (const server of servers) {
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    ports.push(portOf(server));
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
