/** The security object of a database: a text that the layer above judges by. */
import type { JsonText } from "../base/index.ts";
import type { ReadTransaction, Transaction } from "../kv/index.ts";
import { chunkCountOf, decodeSecurity, encodeSecurity } from "./body-record.ts";
import type { DatabaseKeys } from "./database-keys.ts";
import { readRest } from "./document-reader.ts";

const NONE_SET: JsonText = "{}";

export async function readSecurity(tx: ReadTransaction, keys: DatabaseKeys): Promise<JsonText> {
  const first = await tx.get(keys.security(0));
  if (first === undefined) return NONE_SET;
  const keyOf = (chunk: number): Uint8Array => keys.security(chunk);
  return decodeSecurity(await readRest(tx, first, chunkCountOf(first), keyOf));
}

export function writeSecurity(tx: Transaction, keys: DatabaseKeys, text: JsonText): void {
  tx.clearRange(keys.securityChunks());
  for (const [chunk, bytes] of encodeSecurity(text).entries()) tx.set(keys.security(chunk), bytes);
}
