/** The version of this program, from `package.json`. */
import { readFileSync } from "node:fs";

/** `package.json` is two folders up, from `src/server` and from `dist/server`. */
const PACKAGE = new URL("../../package.json", import.meta.url);

export const VERSION: string = JSON.parse(readFileSync(PACKAGE, "utf8")).version;
