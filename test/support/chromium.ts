/**
 * Browser of the tests: the one in `CHROMIUM_PATH`, the one in the package `@sparticuz/chromium`,
 * or Debian's. The package contains a compressed browser, and libraries that a small system might
 * lack. The browser is unpacked once, next to the installed packages.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface Chromium {
  readonly executablePath: string;
  /** Environment variables that the browser needs in addition to the environment of the tests. */
  readonly environment: Readonly<Record<string, string>>;
}

const CACHE = fileURLToPath(new URL("../../node_modules/.cache", import.meta.url));
const DEBIAN = "/usr/bin/chromium";

/**
 * Makes the package unpack its libraries, which it otherwise does only on AWS Lambda. It unpacks
 * them into the folder for temporary files.
 */
const UNPACK = `import("@sparticuz/chromium").then(({ default: chromium }) => chromium.executablePath())`;

/** Returns the browser to start, if this machine can run one. */
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

/** Returns the folder of the package's browser, if the package supports this machine. */
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
    // The rename fails if another process has created the folder in the meantime.
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
