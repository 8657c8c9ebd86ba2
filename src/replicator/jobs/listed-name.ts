/** Maximum length of a name in the key of a list. */
const NAME_LENGTH_MAX = 500;

/** Truncates a name to the maximum length in keys of lists. */
export function listedName(name: string): string {
  return name.slice(0, NAME_LENGTH_MAX);
}

/**
 * First character of the names of local databases in lists of hosts. Host names contain no slash.
 */
export const LOCAL_MARK = "/";

/** Prefix of the names of databases on other servers in lists of hosts. */
export const REMOTE_MARK = "//";

export function localPlace(database: string): string {
  return listedName(LOCAL_MARK + database);
}

export function remotePlace(database: string): string {
  return listedName(REMOTE_MARK + database);
}

/** Returns the database that a place denotes; undefined if the place is a host. */
export function databaseOfPlace(place: string): string | undefined {
  if (place.startsWith(REMOTE_MARK)) return place.slice(REMOTE_MARK.length);
  return place.startsWith(LOCAL_MARK) ? place.slice(LOCAL_MARK.length) : undefined;
}
