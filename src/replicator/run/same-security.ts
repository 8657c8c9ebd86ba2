/** Compares and hashes security objects. Pure. */
import { canonicalJson, type Digests, type JsonText, utf8Encode } from "../../base/index.ts";

/**
 * Whether two security objects are equal, regardless of formatting and the order of members. Throws
 * for invalid JSON.
 */
export function isSameSecurity(left: JsonText, right: JsonText): boolean {
  return canonicalJson(left) === canonicalJson(right);
}

/**
 * Returns a digest of a security object. Two security objects have equal digests if and only if
 * `isSameSecurity` is true for them.
 */
export function securityDigest(digests: Digests, text: JsonText): string {
  return digests.md5Hex(utf8Encode(canonicalJson(text)));
}
