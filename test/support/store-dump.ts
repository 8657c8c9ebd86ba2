/** An LMDB store as a text: one line for each pair, key and value in base64. */
import { mkdirSync } from "node:fs";
import { open } from "lmdb";

/** Of `host/lmdb/environment.ts`: it says how long keys may be. */
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
      // Carried out with the transaction, which is awaited.
      void store.put(Buffer.from(key, "base64"), Buffer.from(value, "base64"));
    }
  });
  await store.flushed;
  await store.close();
}
