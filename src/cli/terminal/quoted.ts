/** Arguments of suggested commands, which operators copy into a shell. */
import { printable } from "./table.ts";

/**
 * Quotes an argument for a POSIX shell, unless it needs no quotes. Replaces control characters,
 * because the argument can be a name or sequence from a foreign server.
 */
export function quoted(argument: string): string {
  const text = printable(argument);
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
