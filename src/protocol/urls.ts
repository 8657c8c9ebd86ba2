/** Names in paths, and endpoints as they may be shown. */

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

/** A URL for people: the password is `*****`, as CouchDB shows it. A text that is no URL is shown without what may be one. */
export function maskCredentials(url: string): string {
  return url.replace(/^([a-z0-9+.-]+:\/\/)([^/@:]*):[^/]*@/i, "$1$2:*****@");
}

/** A URL without user and password. */
export function stripCredentials(url: string): string {
  return url.replace(/^([a-z0-9+.-]+:\/\/)[^/]*@/i, "$1");
}
