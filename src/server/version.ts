/** The version of this program, as `package.json` has it. */
import { readFileSync } from "node:fs";

/** `package.json` is two folders above, from `src/server` as from `dist/server`. */
const PACKAGE = new URL("../../package.json", import.meta.url);

export const VERSION: string = JSON.parse(readFileSync(PACKAGE, "utf8")).version;
