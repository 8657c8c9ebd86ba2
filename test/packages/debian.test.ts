/** The Debian package, installed, used, upgraded and purged in a chroot. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openChroot } from "../support/packages/chroot.ts";
import { packPackage } from "../support/packages/packed.ts";
import { run } from "../support/packages/run.ts";

const BUILD = fileURLToPath(new URL("../../tools/debian/build.mjs", import.meta.url));
const VERSIONS = ["0.1.0", "0.1.1"] as const;
/** Selects fast compression. */
const env = { ...process.env, DPKG_DEB_COMPRESSOR_TYPE: "gzip", DPKG_DEB_COMPRESSOR_LEVEL: "1" };
const UNIT = "/usr/lib/systemd/system/tandem.service";
/**
 * Installs a `systemctl` that records its calls. With it and systemd's folder, the system appears
 * to run systemd.
 */
const SYSTEMCTL = `mkdir -p /run/systemd/system
printf '#!/bin/sh\\necho "$*" >> /run/calls\\n' > /usr/local/bin/systemctl
chmod 755 /usr/local/bin/systemctl`;

/** Types the start of a command and a tab in an interactive zsh, which completes the command. */
const ZSH_SESSION = String.raw`zmodload zsh/zpty
zpty session 'PS1="> " zsh -f -i'
zpty -r session output '*> *'
zpty -w session 'autoload -U compinit; compinit -u -D; print rea""dy'
zpty -r session output '*ready*'
zpty -n -w session $'tandem jobs retry-\t'
zpty -r session output '*retry-failures*' && print completed`;

const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));
const chroot = await openChroot(["nodejs", "adduser", "man-db", "zsh", "fish"]);
const debs = VERSIONS.map((version) => join(directory, `couch-tandem_${version}_all.deb`));

beforeAll(async () => {
  if (chroot === undefined) return;
  const { tarball } = packPackage(directory);
  const build = async (version: string, umask: string) => {
    const flags = ["--tarball", tarball, "--version", version, "--output", directory];
    const command = `umask ${umask}; exec "$0" "$@"`;
    const words = ["-c", command, process.execPath, BUILD, ...flags];
    expect(await run("sh", words, { env })).toMatchObject({ code: 0 });
  };
  await Promise.all([build(VERSIONS[0], "022"), build(VERSIONS[1], "077")]);
});
afterAll(async () => {
  await chroot?.close();
  rmSync(directory, { recursive: true });
});

/** Returns the chroot. Throws if the machine cannot have one, in which case tests are skipped. */
function system() {
  if (chroot === undefined) throw new Error("no chroot");
  const done = async (program: string, ...flags: string[]): Promise<string> => {
    const { code, output } = await chroot.run(program, ...flags);
    expect([program, flags, code, code === 0 ? "" : output]).toEqual([program, flags, 0, ""]);
    return output;
  };
  const shell = (command: string) => done("bash", "-c", command);
  return { ...chroot, done, shell };
}

/** Starts the installed unit's command as the unit's user. */
async function startUnit() {
  const { shell, start } = system();
  const unit = await shell(`cat ${UNIT}`);
  const value = (name: string) => unit.match(new RegExp(`^${name}=(.*)$`, "m"))?.[1] ?? "";
  const user = value("User");
  const command = value("ExecStart").replace(
    /\$\{STATE_DIRECTORY\}/,
    `/var/lib/${value("StateDirectory")}`,
  );
  const words = [...value("Environment").split(" "), ...command.split(" "), "--port", "0"];
  const node = start("setpriv", "--reuid", user, "--regid", user, "--init-groups", "env", ...words);
  const ended = once(node, "close");
  for await (const line of createInterface(node.stdout as NodeJS.ReadableStream)) {
    const url = /^listening on (\S+)/.exec(line)?.[1];
    if (url === undefined) continue;
    const call = async (method: string, path: string, body?: unknown) => {
      const authorization = `Basic ${Buffer.from("admin:secret").toString("base64")}`;
      const headers = { authorization, "content-type": "application/json" };
      const init = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await fetch(`${url}${path}`, { method, headers, ...init });
      return [response.status, await response.json()];
    };
    const stop = async () => {
      node.kill("SIGTERM");
      return (await ended)[0];
    };
    return { call, stop };
  }
  throw new Error(`the unit ended with ${await ended}`);
}

test.skipIf(chroot !== undefined || process.getuid?.() !== 0)(
  "these tests run as root in CI, with the packages nodejs, adduser, man-db, zsh and fish",
  () => expect(process.env.CI ?? "").toBe(""),
);

test.skipIf(chroot === undefined)("two builds contain the same bytes, whatever the umask", () => {
  const [first, second] = debs.map((deb) =>
    execFileSync("ar", ["p", deb, "data.tar.gz"], { maxBuffer: 2 ** 27 }),
  );
  expect((first as Buffer).length).toBeGreaterThan(1_000_000);
  expect((first as Buffer).equals(second as Buffer)).toBe(true);
});

test.skipIf(chroot === undefined)(
  "installing the package creates its user, configuration, state folder, manual page and completions",
  async () => {
    const { done, shell } = system();
    await shell(SYSTEMCTL);
    await done("dpkg", "--install", debs[0] as string);
    expect(await done("dpkg", "--verify", "couch-tandem")).toBe("");
    expect(await done("tandem", "--version")).toBe(`${VERSIONS[0]}\n`);
    const [, , uid, , , home, loginShell] = (await done("getent", "passwd", "tandem")).split(":");
    expect(Number(uid)).toBeLessThan(1_000);
    expect([home, loginShell]).toEqual(["/var/lib/tandem", "/usr/sbin/nologin\n"]);
    const files = "/etc/tandem /etc/tandem/local.ini /var/lib/tandem /var/lib/tandem/store.key";
    expect(await shell(`stat -c '%a %U %G %n' ${files}`)).toBe(
      "750 root tandem /etc/tandem\n" +
        "640 root tandem /etc/tandem/local.ini\n" +
        "700 tandem tandem /var/lib/tandem\n" +
        "600 tandem tandem /var/lib/tandem/store.key\n",
    );
    expect(await shell("cat /run/calls")).toBe("daemon-reload\n");
    const manual = await shell("MANROFFOPT=-ww man --warnings -P cat tandem | col -b");
    expect(manual).toMatch(/^ {3}tandem jobs list \[options\]$/m);
    expect(manual).not.toContain("warning:");
    const completed = "resume retry reset retry-failures";
    expect(
      await shell(`source /usr/share/bash-completion/completions/tandem
        COMP_WORDS=(tandem jobs re) COMP_CWORD=2; _tandem; echo "\${COMPREPLY[@]}"`),
    ).toBe(`${completed}\n`);
    const fish = await done("fish", "--command", "complete --do-complete 'tandem jobs re'");
    expect(fish.match(/^\S+/gm)?.sort()).toEqual(completed.split(" ").sort());
    expect(await done("timeout", "60", "zsh", "-f", "-c", ZSH_SESSION)).toBe("completed\n");
  },
);

test.skipIf(chroot === undefined)("the unit's command runs replications, and stops", async () => {
  const { shell } = system();
  await shell("sed -i 's/^;admin = .*/admin = secret/' /etc/tandem/local.ini");
  const { call, stop } = await startUnit();
  expect(await call("GET", "/_up")).toEqual([200, expect.objectContaining({ status: "ok" })]);
  await call("PUT", "/films");
  await call("PUT", "/films/one", { title: "One" });
  const request = { source: "films", target: "copy", create_target: true };
  expect(await call("POST", "/_replicate", request)).toEqual([
    200,
    expect.objectContaining({ ok: true }),
  ]);
  expect(await call("GET", "/copy/one")).toEqual([200, expect.objectContaining({ title: "One" })]);
  expect(await stop()).toBe(0);
});

test.skipIf(chroot === undefined)(
  "upgrading the package keeps the edited configuration and the store, and restarts the unit",
  async () => {
    const { done, shell } = system();
    const before = await shell("cat /etc/tandem/local.ini /var/lib/tandem/store.key");
    await shell("chmod 600 /etc/tandem/local.ini && chown tandem /etc/tandem/local.ini");
    await done("dpkg", "--install", debs[1] as string);
    expect(await shell("dpkg-query --show couch-tandem")).toBe(`couch-tandem\t${VERSIONS[1]}\n`);
    expect(await shell("cat /etc/tandem/local.ini /var/lib/tandem/store.key")).toBe(before);
    expect(await shell("stat -c '%a %U' /etc/tandem/local.ini")).toBe("600 tandem\n");
    expect(await shell("tail -n 1 /run/calls")).toBe("try-restart tandem.service\n");
    const { call, stop } = await startUnit();
    expect(await call("GET", "/copy/one")).toEqual([
      200,
      expect.objectContaining({ title: "One" }),
    ]);
    expect(await stop()).toBe(0);
  },
);

test.skipIf(chroot === undefined)(
  "removing the package keeps its configuration and state, and purging it removes them and its user",
  async () => {
    const { done, run: ran, shell } = system();
    const listed = (await done("dpkg", "--listfiles", "couch-tandem")).split("\n");
    const own = [...listed.filter((path) => /tandem[^/]*$/.test(path)), "/var/lib/tandem"];
    await done("dpkg", "--remove", "couch-tandem");
    expect(await shell("cat /run/calls")).toContain("disable --now tandem.service");
    expect((await ran("tandem", "--version")).code).toBe(127);
    expect(await shell("ls /etc/tandem /var/lib/tandem")).toBe(
      "/etc/tandem:\nlocal.ini\n\n/var/lib/tandem:\nstore\nstore.key\n",
    );
    await done("getent", "passwd", "tandem");
    await done("dpkg", "--purge", "couch-tandem");
    expect((await ran("getent", "passwd", "tandem")).code).toBe(2);
    expect((await ran("getent", "group", "tandem")).code).toBe(2);
    expect((await ran("dpkg-query", "-W", "couch-tandem")).code).toBe(1);
    expect(await shell(`ls --directory ${own.join(" ")} 2> /dev/null || true`)).toBe("");
  },
);
