/** The security object of a database, as JSON text that the layer above interprets. */
import { type JsonText, OperationalError, utf8Encode } from "../../base/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import { readRest } from "../documents/document-reader.ts";
import { chunkCountOf, decodeSecurity, encodeSecurity } from "../records/body-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";

/** CouchDB's `admin_only`: access for server administrators only. */
export const SECURITY_ADMIN_ONLY: JsonText =
  '{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}';

/**
 * Maximum length of a security object in UTF-8: about ten thousand names. It is limited because
 * every request reads the whole object, except requests of server administrators.
 */
export const SECURITY_BYTES_MAX = 1024 * 1024;

/** Returns the stored security object, or `undefined` if none was set. */
export async function readSecurity(
  tx: ReadTransaction,
  keys: DatabaseKeys,
): Promise<JsonText | undefined> {
  const first = await tx.get(keys.security.key({ chunk: 0 }));
  if (first === undefined) return undefined;
  const keyOf = (chunk: number): Uint8Array => keys.security.key({ chunk });
  return decodeSecurity(await readRest(tx, first, chunkCountOf(first), keyOf));
}

/** Stores the security object. Throws STORE_SECURITY_TOO_LARGE. */
export function writeSecurity(tx: Transaction, keys: DatabaseKeys, text: JsonText): void {
  const bytes = utf8Encode(text);
  if (bytes.length > SECURITY_BYTES_MAX) {
    const reason = `A security object must not exceed ${SECURITY_BYTES_MAX} bytes`;
    throw new OperationalError("STORE_SECURITY_TOO_LARGE", reason);
  }
  tx.clearRange(keys.security.range());
  for (const [chunk, part] of encodeSecurity(bytes).entries())
    tx.set(keys.security.key({ chunk }), part);
}
