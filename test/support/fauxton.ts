/**
 * Fauxton, as CouchDB serves it. Fauxton's npm package is not a dependency of this project, because
 * the package depends on over a thousand build tools. npm downloads only the package's archive. The
 * archive is verified by checksum, and kept next to the installed packages.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const VERSION = "1.2.6";
const SHA512 =
  "5ZwPKqstwmQclSHifWBmbyzlBOLoBB3gssGaiEFLPcIzHO0Zxz+uPr/D/Fs6DGH7Hfohw7s6zqcjwU9CRcshfw==";
const CACHE = fileURLToPath(new URL("../../node_modules/.cache", import.meta.url));

/**
 * Returns the folder to serve below `/_utils/`. Returns undefined if Fauxton is missing and cannot
 * be downloaded. Throws if the checksum differs.
 */
export function findFauxton(): string | undefined {
  const folder = join(CACHE, `fauxton-${VERSION}`);
  if (!existsSync(folder) && !fetchInto(folder)) return undefined;
  return join(folder, "package/dist/release");
}

function fetchInto(folder: string): boolean {
  mkdirSync(CACHE, { recursive: true });
  const staging = mkdtempSync(`${folder}-`);
  const runs = (program: string, ...args: string[]): boolean =>
    spawnSync(program, args, { cwd: staging, stdio: "ignore" }).status === 0;
  try {
    if (!runs("npm", "pack", `fauxton@${VERSION}`)) return false;
    const archive = `fauxton-${VERSION}.tgz`;
    const digest = createHash("sha512").update(readFileSync(join(staging, archive)));
    if (digest.digest("base64") !== SHA512)
      throw new Error(`The checksum of ${archive} does not match`);
    if (!runs("tar", "-xzf", archive)) return false;
    renameSync(staging, folder);
    return true;
  } catch (error) {
    // If another process has created the folder in the meantime, the rename has failed, but the
    // folder is complete.
    if (existsSync(folder)) return true;
    throw error;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}
