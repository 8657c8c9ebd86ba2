/** Maximum length of a name that is part of a key in the store. */
const NAME_LENGTH_MAX = 500;

/** Returns the form of a name in lists. */
export function listedName(name: string): string {
  return name.slice(0, NAME_LENGTH_MAX);
}

/**
 * First character of the names of local databases in lists of hosts. Names of hosts contain no
 * slash.
 */
export const LOCAL_MARK = "/";

export function localPlace(database: string): string {
  return listedName(LOCAL_MARK + database);
}
