/** Dumps an LMDB store as text. Each line contains a key and its value, both in base64. */
import { mkdirSync } from "node:fs";
import { open } from "lmdb";

/** Page size, which determines the maximum size of keys, as in `host/lmdb/environment.ts`. */
const PAGE_BYTES = 8_192;

function openPlain(directory: string) {
  mkdirSync(directory, { recursive: true });
  return open<Buffer, Buffer>({
    path: directory,
    keyEncoding: "binary",
    encoding: "binary",
    pageSize: PAGE_BYTES,
  });
}

export async function dumpStore(directory: string): Promise<string> {
  const store = openPlain(directory);
  const lines = [...store.getRange()].map(({ key, value }) => {
    return `${key.toString("base64")} ${value.toString("base64")}\n`;
  });
  await store.close();
  return lines.join("");
}

export async function restoreStore(text: string, directory: string): Promise<void> {
  const store = openPlain(directory);
  await store.transaction(() => {
    for (const line of text.trimEnd().split("\n")) {
      const [key = "", value = ""] = line.split(" ");
      // The transaction that contains this write is awaited.
      void store.put(Buffer.from(key, "base64"), Buffer.from(value, "base64"));
    }
  });
  await store.flushed;
  await store.close();
}
