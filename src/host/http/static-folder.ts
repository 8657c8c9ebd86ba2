/** Serves the files of a folder. */
import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import type { StaticFile, StaticFiles } from "../../api/index.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".eot": "application/vnd.ms-fontobject",
  ".gif": "image/gif",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".ttf": "font/ttf",
  ".txt": "text/plain; charset=utf-8",
  ".webp": "image/webp",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
};

/** Error codes for a path without a readable file. */
const ABSENT = new Set(["ENOENT", "ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG"]);

export class StaticFolder implements StaticFiles {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async open(segments: readonly string[]): Promise<StaticFile | undefined> {
    if (!segments.every(isName)) return undefined;
    try {
      const root = await realpath(this.#directory);
      const asked = await realpath(join(root, ...segments));
      const isFolder = (await stat(asked)).isDirectory();
      const path = isFolder ? await realpath(join(asked, "index.html")) : asked;
      // `path` has no symbolic links any more: one of them could have led outside the folder.
      if (!path.startsWith(root + sep)) return undefined;
      const found = await stat(path);
      if (!found.isFile()) return undefined;
      return {
        type: TYPES[extname(path).toLowerCase()] ?? "application/octet-stream",
        byteCount: found.size,
        modifiedAt: found.mtime.toUTCString(),
        read: () => createReadStream(path),
      };
    } catch (error) {
      if (ABSENT.has((error as NodeJS.ErrnoException).code ?? "")) return undefined;
      throw error;
    }
  }
}

/** Whether the segment is a plain file or folder name, without traversal. */
function isName(segment: string): boolean {
  return segment !== "." && segment !== ".." && !/[/\\\0]/.test(segment);
}
