/** So much of a name is part of a key. */
const NAME_LENGTH_MAX = 500;

/** The name as lists have it, for who looks for it. */
export function listedName(name: string): string {
  return name.slice(0, NAME_LENGTH_MAX);
}

/** As lists have a database of our own, where others are named by their hosts: no host has the slash. */
export const LOCAL_MARK = "/";

export function localPlace(database: string): string {
  return listedName(LOCAL_MARK + database);
}
