/** Fits text into the width of the terminal. */

/** Width assumed for terminals that report none. */
const COLUMNS_DEFAULT = 80;
/**
 * Width of an output that is not a terminal, if `COLUMNS` is not set. Names and URLs are not
 * shortened there, so that programs can search for them. Bounded, because rows are padded to the
 * longest name on a server.
 */
const COLUMNS_MAX = 10_000;

/** Width of the output in columns. */
export function columnsOf(
  output: Pick<NodeJS.WriteStream, "columns" | "isTTY"> = process.stdout,
  given = process.env.COLUMNS,
): number {
  if (output.isTTY) return output.columns || COLUMNS_DEFAULT;
  return given !== undefined && /^[1-9]\d{0,3}$/.test(given) ? Number(given) : COLUMNS_MAX;
}

/**
 * Shortens text by replacing its middle with an ellipsis. Keeps more of the end than of the
 * beginning, because names and URLs in a list usually begin alike.
 */
export function shortened(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text;
  if (lengthMax < 2) return "…".slice(0, lengthMax);
  const headLength = Math.floor((lengthMax - 1) / 3);
  return `${text.slice(0, headLength)}…${text.slice(text.length - (lengthMax - 1 - headLength))}`;
}

/**
 * Breaks text at spaces into lines. A word longer than a line is not broken, so that it can be
 * copied.
 */
export function wrapped(text: string, lengthMax: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= lengthMax) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else lines.push(word);
  }
  return lines;
}
