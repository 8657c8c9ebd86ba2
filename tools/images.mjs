/**
 * `npm run images`: builds the image of the Dockerfile with podman, runs it, and prints a table of
 * the checks. Exits with 1 if a check failed. Leaves no image, container or volume.
 *
 *   node tools/images.mjs [--older COMMIT] [--stand-in] [--foundationdb FOLDER] [--runtime NAME]
 *     [--build-option=OPTION …] [--run-option=OPTION …]
 *
 * `--older` also builds the image of that commit, and upgrades its volume. Without access to a
 * registry, `--stand-in` creates the base image with mmdebstrap and npm's package of Node.js, and
 * `--foundationdb` creates FoundationDB's image from `bin/fdbserver`, `bin/fdbcli` and
 * `lib/libfdb_c.so` in a folder. The other options are passed to podman: for example,
 * `--run-option=--ulimit=nofile=8192:8192` where limits cannot be raised.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { values: options } = parseArgs({
  options: {
    older: { type: "string" },
    "stand-in": { type: "boolean", default: false },
    foundationdb: { type: "string" },
    runtime: { type: "string" },
    "build-option": { type: "string", multiple: true, default: [] },
    "run-option": { type: "string", multiple: true, default: [] },
  },
});
const CREDENTIALS = ["--env=COUCHDB_USER=admin", "--env=COUCHDB_PASSWORD=secret"];
const AUTHORIZATION = `Basic ${Buffer.from("admin:secret").toString("base64")}`;
/** Restrictions on a container, as in `examples/compose.yml`. */
const HARDENED = [
  "--read-only",
  "--tmpfs=/tmp",
  "--cap-drop=ALL",
  "--security-opt=no-new-privileges",
];
const IMAGE = "localhost/tandem";
const CLUSTER_IMAGE = "localhost/tandem-foundationdb";
const CLUSTER_DOCKERFILE = "examples/foundationdb.Dockerfile";
const CLUSTER_FILE = "/etc/foundationdb/fdb.cluster";
const GRACE_SEC = 20;
const HEALTHY_POLLS_MAX = 60;
const POLL_MS = 1_000;

/** Network options of a node: its own network, or that of FoundationDB's container. */
const OWN_NETWORK = "--publish=127.0.0.1::5984";
const FOUNDATIONDB_NETWORK = "--network=container:foundationdb";

/** The container that `firstRun` started most recently. */
let running;
let containerCount = 0;

const work = mkdtempSync(join(tmpdir(), "tandem-images-"));
const ENGINE = [
  `--root=${join(work, "storage")}`,
  `--runroot=${join(work, "run")}`,
  ...(options.runtime === undefined ? [] : [`--runtime=${options.runtime}`]),
];
const rows = [];

try {
  if (options["stand-in"]) standIn(readFileSync(join(ROOT, "Dockerfile"), "utf8"));
  if (options.foundationdb !== undefined) standInForFoundationDb(options.foundationdb);
  await attempt("build", () => build(IMAGE, ROOT));
  await attempt("size", () => `${Math.round(inspect(IMAGE, "{{.Size}}") / 1e6)} MB`);
  await attempt("user, health, writes, a job", () => firstRun("data"));
  await attempt("SIGTERM", () => stopped("data"));
  await attempt("volume of the last container", () => secondRun("data", []));
  await attempt("read-only root, no capabilities", () => secondRun("data", HARDENED));
  if (options.older !== undefined) {
    await attempt(`volume of ${options.older}`, () => upgrade(options.older));
  }
  await attempt(CLUSTER_DOCKERFILE, () => build(CLUSTER_IMAGE, ROOT, CLUSTER_DOCKERFILE));
  await attempt("a node on FoundationDB", onFoundationDb);
} finally {
  const width = Math.max(...rows.map(([what]) => what.length));
  for (const [what, isFine, result] of rows) {
    process.stdout.write(`${what.padEnd(width)}  ${isFine ? "ok    " : "FAILED"}  ${result}\n`);
  }
  // Two rounds, because a container can be removed only after the containers that use its network.
  for (let round = 0; round < 2; round += 1) podmanTry("rm", "--all", "--force");
  unmountBelow(work);
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = rows.every(([, isFine]) => isFine) ? 0 : 1;

/**
 * Unmounts everything below `folder`. podman mounts its storage over itself, and can leave mounts
 * of removed containers.
 */
function unmountBelow(folder) {
  const mounts = readFileSync("/proc/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1]);
  for (const mount of mounts.filter((place) => place?.startsWith(`${folder}/`)).reverse()) {
    spawnSync("umount", ["--lazy", mount]);
  }
}

async function attempt(what, check) {
  process.stderr.write(`${what} …\n`);
  try {
    rows.push([what, true, await check()]);
  } catch (error) {
    process.stderr.write(error.stderr ?? "");
    rows.push([what, false, (error.stderr || error.message).trim().split("\n").at(-1)]);
  }
}

function podman(...words) {
  return execFileSync("podman", [...ENGINE, ...words], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 2 ** 26,
  }).trim();
}

function podmanTry(...words) {
  return spawnSync("podman", [...ENGINE, ...words], { encoding: "utf8" });
}

function inspect(image, format) {
  return podman("image", "inspect", "--format", format, image);
}

/**
 * Builds an image, in Docker's format because only that has health checks. Returns the duration.
 */
function build(image, context, file = "Dockerfile") {
  const started = Date.now();
  const flags = ["--format=docker", ...options["build-option"], "--file", join(context, file)];
  podman("build", ...flags, "--tag", image, context);
  return `${Math.round((Date.now() - started) / 1_000)} s`;
}

/** Creates a stand-in for the base image that the Dockerfile names, with similar contents. */
function standIn(dockerfile) {
  const [, base, major] = /^FROM (node:(\d+)-slim)/m.exec(dockerfile);
  const context = join(work, "stand-in");
  mkdirSync(context);
  const flags = ["--quiet", "--variant=minbase", "--include=ca-certificates"];
  execFileSync("mmdebstrap", [...flags, "bookworm", join(context, "debian.tar")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  for (const [name, file] of [
    [`node-linux-${process.arch}@${major}`, "node.tgz"],
    ["npm@10", "npm.tgz"],
  ]) {
    const [{ filename }] = JSON.parse(
      execFileSync("npm", ["pack", "--json", "--pack-destination", context, name]),
    );
    execFileSync("mv", [join(context, filename), join(context, file)]);
  }
  writeFileSync(
    join(context, "Dockerfile"),
    `FROM scratch
ADD debian.tar /
COPY node.tgz npm.tgz /tmp/
RUN tar -xzf /tmp/node.tgz -C /usr/local --strip-components=1 package/bin \\
 && mkdir -p /usr/local/lib/node_modules/npm \\
 && tar -xzf /tmp/npm.tgz -C /usr/local/lib/node_modules/npm --strip-components=1 \\
 && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\
 && chmod 755 /usr/local/bin/node /usr/local/lib/node_modules/npm/bin/npm-cli.js \\
 && useradd --create-home --uid 1000 --shell /bin/bash node && rm /tmp/*.tgz
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["node"]
`,
  );
  podman("build", "--tag", `docker.io/library/${base}`, context);
}

/** Starts a container that serves the volume, and waits until its health check succeeds. */
async function start(image, volume, flags = [], network = OWN_NETWORK) {
  containerCount += 1;
  const name = `tandem-${containerCount}`;
  const fixed = ["--detach", network, `--volume=${volume}:/data`, `--name=${name}`];
  podman("run", ...fixed, ...CREDENTIALS, ...options["run-option"], ...flags, image);
  const published = network === OWN_NETWORK ? name : "foundationdb";
  const url = `http://${podman("port", published, "5984/tcp")}`;
  for (let poll = 0; podmanTry("healthcheck", "run", name).status !== 0; poll += 1) {
    if (poll === HEALTHY_POLLS_MAX)
      throw new Error(`not healthy: ${podmanTry("logs", name).stderr}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  const call = async (method, path, body) => {
    const headers = { authorization: AUTHORIZATION, "content-type": "application/json" };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(`${url}${path}`, init);
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  return { name, call };
}

/** Stops a container. Throws unless it has exited with 0 in time, after releasing its jobs. */
function stop(name) {
  const started = Date.now();
  podman("stop", `--time=${GRACE_SEC}`, name);
  const code = podman("inspect", "--format", "{{.State.ExitCode}}", name);
  const { stdout, stderr } = podmanTry("logs", name);
  if (code !== "0") throw new Error(`exit code ${code}`);
  if (!`${stdout}${stderr}`.includes("jobs.worker-cleared")) throw new Error("jobs not released");
  return `exit code 0 after ${((Date.now() - started) / 1_000).toFixed(1)} s, jobs released`;
}

/** Writes a document, and starts a continuous job. */
async function firstRun(volume, image = IMAGE, flags = [], network = OWN_NETWORK) {
  running = await start(image, volume, flags, network);
  const { name, call } = running;
  const uid = podman("exec", name, "id", "-u");
  if (uid === "0") throw new Error("runs as root");
  await call("PUT", "/films");
  await call("PUT", "/films/one", { title: "One" });
  const job = { source: "films", target: "copy", create_target: true, continuous: true };
  await call("PUT", "/_replicator/copy", job);
  await arrived(call, "one");
  return `user ${inspect(image, "{{.User}}")} (${uid}), healthy`;
}

function stopped() {
  return stop(running.name);
}

/**
 * Checks that the first run's document exists, and that the first run's job copies another
 * document.
 */
async function secondRun(volume, flags, image = IMAGE) {
  const { name, call } = await start(image, volume, flags);
  const { title } = await call("GET", "/copy/one");
  if (title !== "One") throw new Error("the document is lost");
  const id = `of-${name}`;
  await call("PUT", `/films/${id}`, {});
  await arrived(call, id);
  return `document kept, job continues; ${stop(name)}`;
}

/** Waits until the job has copied the document. */
async function arrived(call, id) {
  for (let poll = 0; ; poll += 1) {
    try {
      return await call("GET", `/copy/${id}`);
    } catch (error) {
      if (poll === HEALTHY_POLLS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}

async function upgrade(commit) {
  const older = "localhost/tandem-older";
  const context = join(work, "older");
  mkdirSync(context);
  execFileSync("sh", ["-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, ROOT, commit, context]);
  build(older, context);
  await firstRun("older-data", older);
  stop(running.name);
  return secondRun("older-data", []);
}

/** Runs a node on a new database of FoundationDB, in the network of FoundationDB's container. */
async function onFoundationDb() {
  const cluster = "--volume=cluster:/etc/foundationdb";
  const settings = {
    FDB_NETWORKING_MODE: "host",
    FDB_CLUSTER_FILE: CLUSTER_FILE,
    FDB_CLUSTER_FILE_CONTENTS: "tandem:tandem@127.0.0.1:4500",
  };
  const environment = Object.entries(settings).map(([name, value]) => `--env=${name}=${value}`);
  const fixed = ["--detach", "--name=foundationdb", OWN_NETWORK, cluster];
  podman("run", ...fixed, ...environment, ...options["run-option"], foundationDbImage());
  podman("exec", "foundationdb", "fdbcli", "--timeout=60", "--exec=configure new single memory");
  const key = randomBytes(32).toString("base64");
  const store = [cluster, "--env=TANDEM_STORE=foundationdb", `--env=TANDEM_SECRETS_KEY=${key}`];
  const flags = [...store, `--env=TANDEM_CLUSTER_FILE=${CLUSTER_FILE}`];
  const result = await firstRun("unused", CLUSTER_IMAGE, flags, FOUNDATIONDB_NETWORK);
  return `${result}; ${stop(running.name)}`;
}

function foundationDbImage() {
  const dockerfile = readFileSync(join(ROOT, CLUSTER_DOCKERFILE), "utf8");
  return /^FROM (\S+) AS client$/m.exec(dockerfile)[1];
}

/**
 * Creates a stand-in for the FoundationDB image. Like the original image, it starts one process.
 */
function standInForFoundationDb(folder) {
  const context = join(work, "foundationdb");
  mkdirSync(context);
  for (const file of ["bin/fdbserver", "bin/fdbcli", "lib/libfdb_c.so"]) {
    copyFileSync(join(folder, file), join(context, basename(file)));
  }
  writeFileSync(
    join(context, "start"),
    `#!/bin/bash
mkdir -p "$(dirname "$FDB_CLUSTER_FILE")" /var/fdb/data /var/fdb/logs
echo "$FDB_CLUSTER_FILE_CONTENTS" > "$FDB_CLUSTER_FILE"
address=127.0.0.1
if [ "$FDB_NETWORKING_MODE" = container ]; then address=$(hostname --ip-address); fi
exec fdbserver --listen_address=0.0.0.0:4500 --public_address="$address:4500" \\
  --datadir=/var/fdb/data --logdir=/var/fdb/logs --cluster_file="$FDB_CLUSTER_FILE"
`,
    { mode: 0o755 },
  );
  const [, base] = /^FROM (\S+)/m.exec(readFileSync(join(ROOT, "Dockerfile"), "utf8"));
  writeFileSync(
    join(context, "Dockerfile"),
    `FROM docker.io/library/${base}
COPY fdbserver fdbcli start /usr/bin/
COPY libfdb_c.so /usr/lib/
ENTRYPOINT ["/usr/bin/start"]
`,
  );
  podman("build", "--tag", foundationDbImage(), context);
}
