/** Dumps an LMDB store as text: one line per pair, key and value in base64. */
import { mkdirSync } from "node:fs";
import { open } from "lmdb";

/** Key size limit, as in `host/lmdb/environment.ts`. */
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
      // The write is part of the transaction, which is awaited.
      void store.put(Buffer.from(key, "base64"), Buffer.from(value, "base64"));
    }
  });
  await store.flushed;
  await store.close();
}
