/**
 * `npm run package:deb`: builds `couch-tandem_VERSION_all.deb` from the package that `npm pack`
 * creates and the locked production packages. The same commit yields the same bytes.
 *
 *   node tools/debian/build.mjs [--tarball FILE] [--version VERSION] [--output FOLDER]
 *
 * The package's architecture is "all", although LMDB is a native module: the package has LMDB's
 * binaries for each architecture in `LMDB_BINARIES`, and `preinst` refuses all other architectures.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PARTS = fileURLToPath(new URL(".", import.meta.url));
const PROGRAM = "usr/lib/couch-tandem";
/** Packages with LMDB's binaries, by Debian's name of the architecture. */
const LMDB_BINARIES = { amd64: "@lmdb/lmdb-linux-x64", arm64: "@lmdb/lmdb-linux-arm64" };
const UNITS = ["tandem.service", "tandem-backup.service", "tandem-backup.timer"];
/** Matches files that only developers need. */
const DEVELOPMENT = /\.(map|[cm]?ts)$/;

const { values: options } = parseArgs({
  options: {
    tarball: { type: "string" },
    version: { type: "string" },
    output: { type: "string", default: "." },
  },
});
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
const version = options.version ?? manifest.version;
/** Modification time of all files, in seconds. */
const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? run("git", ["log", "-1", "--format=%ct"]));

const work = mkdtempSync(join(tmpdir(), "tandem-deb-"));
try {
  const tree = join(work, "tree");
  const program = join(tree, PROGRAM);
  unpackProgram(program);
  const write = (path, text, mode = 0o644) => {
    const file = join(tree, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  writeSystemFiles(write, (...words) => run("node", [join(program, "bin/tandem.mjs"), ...words]));
  mkdirSync(join(tree, "usr/bin"), { recursive: true });
  symlinkSync(`../../${PROGRAM}/bin/tandem.mjs`, join(tree, "usr/bin/tandem"));
  writeControlFiles(write, tree);
  const deb = resolve(options.output, `couch-tandem_${version}_all.deb`);
  pack(tree, deb);
  process.stdout.write(`${deb}\n`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

/** Creates the folder of the npm package, with production packages next to it. */
function unpackProgram(program) {
  mkdirSync(program, { recursive: true });
  const tarball = options.tarball === undefined ? packed() : resolve(options.tarball);
  run("tar", ["-xzf", tarball, "--strip-components=1", "-C", program]);
  copyFileSync(join(ROOT, "package-lock.json"), join(program, "package-lock.json"));
  // The optional packages are binaries. npm would install only those for this machine.
  const flags = ["--omit=dev", "--omit=optional", "--ignore-scripts", "--prefer-offline"];
  run("npm", ["ci", ...flags, "--no-audit"], program);
  for (const path of ["package-lock.json", "node_modules/.package-lock.json"]) {
    rmSync(join(program, path));
  }
  for (const name of Object.values(LMDB_BINARIES)) {
    const [{ filename, integrity }] = JSON.parse(
      run("npm", ["pack", "--json", "--prefer-offline", `${name}@${lockedOf(name).version}`], work),
    );
    if (integrity !== lockedOf(name).integrity) throw new Error(`${name}: wrong checksum`);
    const folder = join(program, "node_modules", name);
    mkdirSync(folder, { recursive: true });
    run("tar", ["-xzf", join(work, filename), "--strip-components=1", "-C", folder]);
  }
  const modules = join(program, "node_modules");
  for (const file of readdirSync(modules, { recursive: true, encoding: "utf8" })) {
    if (DEVELOPMENT.test(file)) rmSync(join(modules, file), { recursive: true });
  }
}

function packed() {
  const [{ filename }] = JSON.parse(
    run("npm", ["pack", "--json", "--foreground-scripts=false", "--pack-destination", work], ROOT),
  );
  return join(work, filename);
}

function lockedOf(name) {
  return lock.packages[`node_modules/${name}`];
}

/** Writes files outside the folder of the program. `tandem` runs the command of the package. */
function writeSystemFiles(write, tandem) {
  for (const unit of UNITS) {
    write(
      `usr/lib/systemd/system/${unit}`,
      ownUnit(readFileSync(`${ROOT}examples/${unit}`, "utf8")),
    );
  }
  write("etc/tandem/local.ini", readFileSync(`${PARTS}local.ini`), 0o640);
  const share = "usr/share";
  write(`${share}/man/man1/tandem.1.gz`, gzipSync(tandem("manual"), { level: 9 }));
  write(`${share}/bash-completion/completions/tandem`, tandem("completion", "bash"));
  write(`${share}/fish/vendor_completions.d/tandem.fish`, tandem("completion", "fish"));
  write(`${share}/zsh/vendor-completions/_tandem`, zshCompletion(tandem("completion", "zsh")));
  write(`${share}/doc/couch-tandem/copyright`, copyright());
}

/**
 * Returns the example systemd unit with the Debian package's user and configuration file.
 */
function ownUnit(text) {
  const withoutHeader = text.replace(/^(#.*\n)+/, "");
  // Remove `DynamicUser`, which would make systemd move the store to /var/lib/private.
  const unit = withoutHeader.replace(
    /^(#.*\n)?DynamicUser=yes\n/m,
    "RestrictSUIDSGID=yes\nRemoveIPC=yes\n",
  );
  return unit.replace(
    /^EnvironmentFile=/m,
    "Environment=TANDEM_CONFIG=/etc/tandem/local.ini TANDEM_SECRETS_KEY_FILE=/var/lib/tandem/store.key\n$&",
  );
}

/** Returns a file that zsh loads by its name when it completes the command for the first time. */
function zshCompletion(script) {
  return `#compdef tandem\n${script}_bash_complete -o default -F _tandem\n`;
}

function copyright() {
  const licensed = Object.entries(lock.packages)
    .filter(
      ([path, { dev, devOptional, optional }]) => path !== "" && !dev && !devOptional && !optional,
    )
    .concat(Object.values(LMDB_BINARIES).map((name) => [`node_modules/${name}`, lockedOf(name)]));
  const stanzas = licensed.map(([path, { license }]) => {
    return `Files: ${PROGRAM}/${path}/*\nCopyright: the authors named in package.json\nLicense: ${license}\n`;
  });
  const names = [...new Set(licensed.map(([, { license }]) => license))].sort();
  const texts = names.map((name) =>
    name === "Apache-2.0"
      ? ` See /usr/share/common-licenses/Apache-2.0.`
      : ` See the folder of the package.`,
  );
  return `${[
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: couch-tandem\n",
    "Files: *\nCopyright: the authors of Tandem\nLicense: Apache-2.0\n",
    `Files: ${PROGRAM}/dist/demo/*\nCopyright: the sources in README.md of the folder\nLicense: CC-BY-SA-4.0 and ODbL-1.0\n See README.md of the folder.\n`,
    ...stanzas,
    ...names.map((name, index) => `License: ${name}\n${texts[index]}\n`),
  ].join("\n")}`;
}

function writeControlFiles(write, tree) {
  const kibibytes = Math.ceil(Number(run("du", ["-sk", "--apparent-size", tree]).split("\t")[0]));
  const fill = (text) =>
    text
      .replaceAll("@VERSION@", version)
      .replaceAll("@SIZE@", String(kibibytes))
      .replaceAll("@DESCRIPTION@", manifest.description)
      .replaceAll("@NODE@", manifest.engines.node.replace(">=", ">= "))
      .replaceAll("@ARCHITECTURES@", Object.keys(LMDB_BINARIES).join("|"));
  for (const name of ["control", "conffiles", "preinst", "postinst", "prerm", "postrm"]) {
    const isScript = name.startsWith("p");
    write(`DEBIAN/${name}`, fill(readFileSync(PARTS + name, "utf8")), isScript ? 0o755 : 0o644);
  }
}

function pack(tree, deb) {
  for (const entry of readdirSync(tree, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    lutimesSync(path, epoch, epoch);
    // The modes of files created by npm depend on the caller's umask.
    if (entry.isDirectory()) chmodSync(path, 0o755);
    else if (entry.isFile() && path.includes(`/${PROGRAM}/`)) {
      chmodSync(path, path.endsWith("/bin/tandem.mjs") ? 0o755 : 0o644);
    }
  }
  chmodSync(tree, 0o755);
  lutimesSync(tree, epoch, epoch);
  if (existsSync(deb)) rmSync(deb);
  execFileSync("dpkg-deb", ["--root-owner-group", "--threads-max=1", "--build", tree, deb], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) },
    stdio: ["ignore", "ignore", "inherit"],
  });
}

function run(program, words, cwd = ROOT) {
  return execFileSync(program, words, { cwd, encoding: "utf8", maxBuffer: 2 ** 26 });
}
