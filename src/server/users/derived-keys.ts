/**
 * Keys derived from `[chttpd_auth] secret`, one per purpose (HKDF, RFC 5869). All signatures by
 * Tandem use a derived key. The secret itself is used only to verify the tokens of proxies, which
 * sign with the secret, as they do for CouchDB.
 */
import { createHmac, hkdfSync } from "node:crypto";

export type KeyPurpose = "session cookie";

const KEY_BYTES = 32;

/** Returns the key for one purpose and one salt. */
export function deriveKey(secret: string, purpose: KeyPurpose, salt: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", secret, salt, `tandem ${purpose}`, KEY_BYTES));
}

/**
 * Signs a text. `algorithm` is one of `[chttpd_auth] hash_algorithms`, which use Erlang's names.
 */
export function signText(algorithm: string, key: string | Uint8Array, text: string): Buffer {
  return createHmac(algorithm === "sha" ? "sha1" : algorithm, key)
    .update(text)
    .digest();
}
