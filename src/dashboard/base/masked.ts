/** Replication documents with secrets masked, for display. */
import { isJsonObject, objectOf } from "../../base/index.ts";

export const MASK = "*****";

/** Members whose values are secrets at any level. */
const SECRET =
  /^(password|token|api_?key|(client_)?secret|client_assertion|headers|authorization|key_file_password)$/i;

/**
 * Returns the value with each secret replaced, including those in addresses. References to secrets
 * are kept, since they reveal nothing.
 */
export function masked(value: unknown, name = ""): unknown {
  if (typeof value === "string") {
    if (SECRET.test(name) && !/^(env|file|identity):/.test(value)) return MASK;
    return maskedAddress(value);
  }
  if (Array.isArray(value)) return value.map((element) => masked(element, name));
  if (!isJsonObject(value)) return value;
  const isHeaders = name.toLowerCase() === "headers";
  return objectOf(
    Object.entries(value).map(([member, inner]) => [
      member,
      masked(inner, isHeaders ? "secret" : member),
    ]),
  );
}

/**
 * Masks the secrets of a URL: `https://ann:secret@host/?token=x` becomes
 * `https://ann:*****@host/?token=*****`.
 */
function maskedAddress(text: string): string {
  return text
    .replace(/^([a-z0-9+.-]+:\/\/[^/@:]*):[^/]*@/i, `$1:${MASK}@`)
    .replace(/^(https?:\/\/[^?]*\?)(.*)$/i, (_, before: string, query: string) => {
      return before + query.replace(/=[^&#]*/g, `=${MASK}`);
    });
}
