/**
 * Reads secrets from files that options name. Secrets are not passed as arguments, because every
 * user of the machine can see arguments.
 */
import { readFileSync } from "node:fs";
import { isJsonObject } from "../../base/index.ts";
import { WrongUse } from "../terminal/wrong-use.ts";

/** Reads a file with an `auth` object, as in replication documents; `-` is standard input. */
export function readAuthFile(option: string, file: string): Readonly<Record<string, unknown>> {
  const text = readSecretFile(option, file, "credentials");
  try {
    const auth: unknown = JSON.parse(text);
    if (isJsonObject(auth)) return auth;
  } catch {
    // The parser's message is not shown, because it would contain part of the file.
  }
  throw new WrongUse(`${option} ${file}: expected a JSON object such as {"oauth2": {…}}`);
}

/**
 * Reads the file that an option names, without the final line break; `-` is standard input. Rejects
 * empty input, because it usually means that another command failed.
 */
export function readSecretFile(option: string, file: string, what: string): string {
  let text: string;
  try {
    text = readFileSync(file === "-" ? process.stdin.fd : file, "utf8");
  } catch (error) {
    throw new WrongUse(`${option} ${file}: ${(error as Error).message}`);
  }
  const secret = text.replace(/\r?\n$/, "");
  if (secret === "") throw new WrongUse(`${option} ${file}: the file contains no ${what}`);
  return secret;
}
