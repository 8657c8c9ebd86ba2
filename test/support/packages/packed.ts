/** The package that `npm pack` creates from the built files. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

export interface Packed {
  readonly tarball: string;
  readonly files: readonly string[];
  readonly unpackedBytes: number;
}

/** Packs into `folder`, without another build. */
export function packPackage(folder: string): Packed {
  const flags = ["--json", "--ignore-scripts", "--pack-destination", folder];
  const [{ filename, files, unpackedSize }] = JSON.parse(
    execFileSync("npm", ["pack", ...flags], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }),
  );
  return {
    tarball: join(folder, filename),
    files: files.map((file: { readonly path: string }) => file.path),
    unpackedBytes: unpackedSize,
  };
}
