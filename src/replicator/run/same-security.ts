/** Compares security objects, and makes digests of them. Pure. */
import { type Digests, type JsonText, utf8Encode } from "../../base/index.ts";

/** Equal for two objects that say the same, in whatever order and however their JSON is written. Throws for what is no JSON. */
export function isSameSecurity(left: JsonText, right: JsonText): boolean {
  return canonical(left) === canonical(right);
}

/** Equal exactly where `isSameSecurity`. */
export function securityDigest(digests: Digests, text: JsonText): string {
  return digests.md5Hex(utf8Encode(canonical(text)));
}

function canonical(text: JsonText): string {
  return JSON.stringify(JSON.parse(text), (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(
          Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)),
        )
      : value,
  );
}
