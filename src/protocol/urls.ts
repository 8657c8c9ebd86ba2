/** Names in paths, and the URLs of endpoints without their secrets. */

/** A database name as one path segment. */
export function encodeDatabaseName(name: string): string {
  return encodeURIComponent(name);
}

/** A document id in a path: `_design/` and `_local/` keep their slash. */
export function encodeDocumentId(id: string): string {
  for (const prefix of ["_design/", "_local/"]) {
    if (id.startsWith(prefix)) return prefix + encodeURIComponent(id.slice(prefix.length));
  }
  return encodeURIComponent(id);
}

/** An attachment's name in a path; its slashes stay. */
export function encodeAttachmentName(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

/**
 * A URL for people: the password is `*****`, as CouchDB shows it, and so is each value of the query, which may be a token. A text
 * that is no URL is shown without what may be one.
 */
export function maskCredentials(url: string): string {
  return maskQuery(url.replace(/^([a-z0-9+.-]+:\/\/)([^/@:]*):[^/]*@/i, "$1$2:*****@"));
}

/** A URL without user and password, and without the values of its query. */
export function stripCredentials(url: string): string {
  return maskQuery(url.replace(/^([a-z0-9+.-]+:\/\/)[^/]*@/i, "$1"));
}

function maskQuery(url: string): string {
  const mark = url.indexOf("?");
  if (mark < 0) return url;
  const names = url
    .slice(mark + 1)
    .split("&")
    .map((pair) => pair.replace(/=.*$/s, "=*****"));
  return `${url.slice(0, mark)}?${names.join("&")}`;
}
