/** The user of an endpoint, for dialogs about its credential. */
import { isJsonObject } from "../../base/index.ts";

/**
 * The user whose password an endpoint of a document or rule contains, in `auth` or in the URL, if
 * any.
 */
export function userOf(endpoint: unknown): string | undefined {
  if (typeof endpoint === "string") return userInUrl(endpoint);
  if (!isJsonObject(endpoint)) return undefined;
  const { url, auth } = endpoint;
  const basic = isJsonObject(auth) ? auth.basic : undefined;
  if (isJsonObject(basic) && typeof basic.username === "string") return basic.username;
  return typeof url === "string" ? userInUrl(url) : undefined;
}

function userInUrl(url: string): string | undefined {
  const written = /^https?:\/\/([^/?#:@]+):[^/?#]*@/i.exec(url)?.[1];
  if (written === undefined) return undefined;
  try {
    return decodeURIComponent(written);
  } catch {
    return written;
  }
}
