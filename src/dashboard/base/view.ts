/**
 * The view named by the address: `#/jobs?failing=true`. A fragment is not sent to the server, so
 * the names in it (databases, jobs) do not appear in access logs.
 */
import type { Query } from "../api/types.ts";

export interface View {
  /** Percent-decoded segments of the path; `[]` for the start page. */
  readonly segments: readonly string[];
  readonly query: Query;
}

export function parseView(hash: string): View {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s, 2);
  const segments = path.split("/").filter((segment) => segment !== "");
  return {
    segments: segments.map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function linkTo(segments: readonly string[], query: Query = {}): string {
  const path = segments.map(encodeURIComponent).join("/");
  const text = new URLSearchParams(query).toString();
  return `#/${path}${text === "" ? "" : `?${text}`}`;
}

/** Decodes a segment. Invalid escapes are possible, because users can type addresses. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
