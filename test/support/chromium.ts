/**
 * The browser of the tests: one that `CHROMIUM_PATH` names, the one of the package `@sparticuz/chromium`, or Debian's. The package
 * has it compressed, with libraries that a small system may not have; it is unpacked once, beside the installed packages.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface Chromium {
  readonly executablePath: string;
  /** What it needs beside the environment of the tests. */
  readonly environment: Readonly<Record<string, string>>;
}

const CACHE = fileURLToPath(new URL("../../node_modules/.cache", import.meta.url));
const DEBIAN = "/usr/bin/chromium";

/** The package unpacks into the folder for temporary files, and its libraries only where it believes to run at Amazon's. */
const UNPACK = `import("@sparticuz/chromium").then(({ default: chromium }) => chromium.executablePath())`;

/** Undefined: none starts on this machine. */
export function findChromium(): Chromium | undefined {
  const named = process.env.CHROMIUM_PATH;
  if (named !== undefined && named !== "") return { executablePath: named, environment: {} };
  return [ofPackage, debians].map((find) => find()).find((found) => found !== undefined);
}

function ofPackage(): Chromium | undefined {
  const folder = unpacked();
  if (folder === undefined) return undefined;
  const executablePath = join(folder, "chromium");
  const environment = {
    FONTCONFIG_PATH: join(folder, "fonts"),
    LD_LIBRARY_PATH: join(folder, "al2023/lib"),
  };
  return [
    { executablePath, environment: {} },
    { executablePath, environment },
  ].find(starts);
}

function debians(): Chromium | undefined {
  const found = { executablePath: DEBIAN, environment: {} };
  return existsSync(DEBIAN) && starts(found) ? found : undefined;
}

/** The folder with the package's browser; undefined for a machine that it is not made for. */
function unpacked(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const { version } = createRequire(import.meta.url)("../../package-lock.json").packages[
    "node_modules/@sparticuz/chromium"
  ] as { version: string };
  const folder = join(CACHE, `chromium-${version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const staging = mkdtempSync(`${folder}-`);
  try {
    const { status } = spawnSync(process.execPath, ["--input-type=module", "-e", UNPACK], {
      env: { ...process.env, TMPDIR: staging, AWS_LAMBDA_JS_RUNTIME: "nodejs20.x" },
      stdio: ["ignore", "ignore", "inherit"],
    });
    if (status !== 0) return undefined;
    renameSync(staging, folder);
  } catch (error) {
    // Another process was faster.
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
  return folder;
}

function starts({ executablePath, environment }: Chromium): boolean {
  const { status } = spawnSync(executablePath, ["--version", "--no-sandbox"], {
    env: { ...process.env, ...environment },
    stdio: "ignore",
  });
  return status === 0;
}
