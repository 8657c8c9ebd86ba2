/**
 * One key per purpose. `[chttpd_auth] secret` itself only verifies proxy tokens, which proxies
 * compute from it as for CouchDB. Everything that Tandem itself signs is signed with a key derived
 * for that purpose (HKDF, RFC 5869).
 */
import { createHmac, hkdfSync } from "node:crypto";

export type KeyPurpose = "session cookie";

const KEY_BYTES = 32;

/** Returns the key for one purpose and one salt. */
export function deriveKey(secret: string, purpose: KeyPurpose, salt: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", secret, salt, `tandem ${purpose}`, KEY_BYTES));
}

/** Signs a text. `algorithm` is an entry of `[chttpd_auth] hash_algorithms`, in Erlang's names. */
export function signText(algorithm: string, key: string | Uint8Array, text: string): Buffer {
  return createHmac(algorithm === "sha" ? "sha1" : algorithm, key)
    .update(text)
    .digest();
}
