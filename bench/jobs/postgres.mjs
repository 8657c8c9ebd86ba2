/**
 * A separate PostgreSQL in a temporary folder with its default durability: a commit returns when it
 * is on the disk.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { portOf } from "../support/port-of.mjs";

const DEBIAN = "/usr/lib/postgresql";

/**
 * Starts PostgreSQL with its data in `directory`, which the caller removes. PostgreSQL does not run
 * as root; if this process is root, it runs as the user `postgres`.
 */
export async function startPostgres(directory) {
  const version = readdirSync(DEBIAN).toSorted().at(-1);
  const program = (name) => join(DEBIAN, version, "bin", name);
  const identity = process.getuid() === 0 ? userNamed("postgres") : {};
  if (identity.uid !== undefined) chownSync(directory, identity.uid, identity.gid);
  /** @type {import("node:child_process").SpawnOptions & { stdio: "ignore" }} */
  const options = { ...identity, stdio: "ignore", cwd: directory };
  execFileSync(
    program("initdb"),
    ["--pgdata=data", "--username=bench", "--auth=trust", "--encoding=UTF8", "--locale=C"],
    options,
  );
  const port = await freePort();
  const settings = ["fsync=on", "synchronous_commit=on", "max_connections=300"];
  const server = spawn(
    program("postgres"),
    [
      "-D",
      "data",
      "-p",
      String(port),
      "-k",
      directory,
      "-h",
      "127.0.0.1",
      ...settings.flatMap((setting) => ["-c", setting]),
    ],
    options,
  );
  while (!isReady(program("pg_isready"), port)) {
    if (server.exitCode !== null) throw new Error("PostgreSQL did not start");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return {
    version,
    url: `postgres://bench@127.0.0.1:${port}/postgres`,
    async stop() {
      server.kill("SIGINT");
      await once(server, "exit");
    },
  };
}

function isReady(program, port) {
  try {
    execFileSync(program, ["-h", "127.0.0.1", "-p", String(port), "-q"]);
    return true;
  } catch {
    return false;
  }
}

function userNamed(name) {
  const number = (flag) => Number(execFileSync("id", [flag, name]).toString());
  return { uid: number("-u"), gid: number("-g") };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = portOf(server);
  server.close();
  await once(server, "close");
  return port;
}
