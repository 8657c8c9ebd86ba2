/** The security object of a database: a text that the layer above judges by. */
import type { JsonText } from "../../base/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import { readRest } from "../documents/document-reader.ts";
import { chunkCountOf, decodeSecurity, encodeSecurity } from "../records/body-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";

/** CouchDB's `admin_only`: only server admins come in. */
export const SECURITY_ADMIN_ONLY: JsonText =
  '{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}';

/** Undefined until one is set. */
export async function readSecurity(
  tx: ReadTransaction,
  keys: DatabaseKeys,
): Promise<JsonText | undefined> {
  const first = await tx.get(keys.security(0));
  if (first === undefined) return undefined;
  const keyOf = (chunk: number): Uint8Array => keys.security(chunk);
  return decodeSecurity(await readRest(tx, first, chunkCountOf(first), keyOf));
}

export function writeSecurity(tx: Transaction, keys: DatabaseKeys, text: JsonText): void {
  tx.clearRange(keys.securityChunks());
  for (const [chunk, bytes] of encodeSecurity(text).entries()) tx.set(keys.security(chunk), bytes);
}
