/** So much of a name is part of a key. */
const NAME_LENGTH_MAX = 500;

/** The name as lists have it, for who looks for it. */
export function listedName(name: string): string {
  return name.slice(0, NAME_LENGTH_MAX);
}
