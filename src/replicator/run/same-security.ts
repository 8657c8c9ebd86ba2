/** Compares security objects, and makes digests of them. Pure. */
import { canonicalJson, type Digests, type JsonText, utf8Encode } from "../../base/index.ts";

/** Equal for two objects that say the same, in whatever order and however their JSON is written. Throws for what is no JSON. */
export function isSameSecurity(left: JsonText, right: JsonText): boolean {
  return canonicalJson(left) === canonicalJson(right);
}

/** Equal exactly where `isSameSecurity`. */
export function securityDigest(digests: Digests, text: JsonText): string {
  return digests.md5Hex(utf8Encode(canonicalJson(text)));
}
