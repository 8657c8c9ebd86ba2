/**
 * `npm run release -- VERSION`: checks, builds and tags a release (`docs/releasing.md`). All files
 * are built from a clone of the release commit, so nothing else of the work tree gets into them.
 * Nothing is pushed or published.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { changelogSection, provenance } from "./release/release-texts.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const ENGINES = ["docker", "podman", "buildah"];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string", default: "dist/release" },
    without: { type: "string", multiple: true, default: [] },
    sign: { type: "boolean", default: false },
  },
});
const [version = ""] = positionals;
const out = resolve(ROOT, values.out);

function run(cwd, [program, ...flags], options = {}) {
  return execFileSync(program, flags, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 26,
    ...options,
  });
}

function git(...flags) {
  return run(ROOT, ["git", ...flags]).trim();
}

/** Throws if an argument is invalid, the work tree has changes, or the tag exists. */
function check() {
  if (!/^\d+\.\d+\.\d+(?:-[0-9a-z.]+)?$/.test(version)) {
    throw new Error(`the version is ${JSON.stringify(version)}; expected MAJOR.MINOR.PATCH`);
  }
  const unknown = values.without.filter((part) => !["deb", "image"].includes(part));
  if (unknown.length > 0) throw new Error(`--without ${unknown}; expected deb or image`);
  if (git("status", "--porcelain") !== "") {
    throw new Error("the work tree has changes; commit them first");
  }
  if (git("tag", "--list", `v${version}`) !== "") throw new Error(`the tag v${version} exists`);
}

/** Commits the version and the date of its changelog. Returns the notes of the release. */
function commitVersion() {
  const path = join(ROOT, "CHANGELOG.md");
  const today = new Date().toISOString().slice(0, 10);
  const { notes, dated } = changelogSection(readFileSync(path, "utf8"), version, today);
  writeFileSync(path, dated);
  if (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version !== version) {
    run(ROOT, ["npm", "version", version, "--no-git-tag-version"]);
    // Update the OpenAPI document, which contains the version.
    run(ROOT, ["npx", "vitest", "run", "--project", "quick", "test/server/contract.test.ts", "-u"]);
  }
  if (git("status", "--porcelain") !== "") git("commit", "--all", "-m", `release: ${version}`);
  return notes;
}

/** Builds the files of a release from a checkout. */
function build(checkout) {
  const time = git("log", "-1", "--format=%ct");
  const env = { ...process.env, SOURCE_DATE_EPOCH: time };
  const step = (...command) => run(checkout, command, { env });
  step("npm", "ci", "--prefer-offline");
  step("npm", "pack", "--pack-destination", out);
  writeFileSync(join(out, `couch-tandem-${version}.cdx.json`), step("npm", "run", "-s", "sbom"));
  if (!values.without.includes("deb")) {
    const tarball = join(out, `couch-tandem-${version}.tgz`);
    step("npm", "run", "package:deb", "--", "--tarball", tarball, "--output", out);
  }
  if (!values.without.includes("image")) buildImage(step);
}

function buildImage(step) {
  const engine = ENGINES.find((name) => spawnSync(name, ["info"]).status === 0);
  if (engine === undefined) {
    throw new Error(`the image needs ${ENGINES.join(", ")}; --without image leaves it out`);
  }
  const name = `couch-tandem:${version}`;
  const file = join(out, `couch-tandem-${version}.image.tar`);
  // The OCI image format has no health checks.
  const format = engine === "docker" ? [] : ["--format", "docker"];
  step(engine, "build", ...format, "--tag", name, ".");
  if (engine === "buildah") step(engine, "push", name, `docker-archive:${file}:${name}`);
  else step(engine, "save", "--output", file, name);
}

/** Writes the provenance and the checksums of the other files. */
function describe(notes) {
  const files = readdirSync(out).map((name) => {
    return { name, sha256: sha256(join(out, name)) };
  });
  const sums = files.map(({ name, sha256: digest }) => `${digest}  ${name}\n`).join("");
  writeFileSync(join(out, "SHA256SUMS"), sums);
  const statement = provenance({
    version,
    commit: git("rev-parse", "HEAD"),
    lockSha256: sha256(join(ROOT, "package-lock.json")),
    time: git("log", "-1", "--format=%cI"),
    files,
  });
  writeFileSync(join(out, "provenance.json"), `${JSON.stringify(statement, null, 2)}\n`);
  writeFileSync(join(out, "NOTES.md"), `${notes}\n`);
  if (values.sign) run(out, ["gpg", "--armor", "--detach-sign", "SHA256SUMS"]);
}

function sha256(path) {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

const checkout = mkdtempSync(join(tmpdir(), "tandem-release-"));
try {
  check();
  const notes = commitVersion();
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  git("clone", "--quiet", ROOT, checkout);
  build(checkout);
  describe(notes);
  const kind = values.sign ? "--sign" : "--annotate";
  git("tag", kind, `v${version}`, "-m", `Tandem ${version}\n\n${notes}`, "--cleanup=verbatim");
  process.stdout.write(`${out}: Tandem ${version}, tagged v${version}\n`);
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
} finally {
  rmSync(checkout, { recursive: true, force: true });
}
