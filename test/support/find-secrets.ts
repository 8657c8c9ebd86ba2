/** Searches for leaked secrets, in any encoding in which a program might have written them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns a secret in several encodings: plain, escaped for a URL, and base64 at each alignment.
 */
export function tracesOf(secret: string): string[] {
  const bases = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString("base64");
    // Omit the first and last base64 digits, which also depend on the bytes next to the secret.
    return encoded
      .slice(before === 0 ? 0 : 4)
      .replace(/=+$/, "")
      .slice(0, -1);
  });
  return [...new Set([secret, encodeURIComponent(secret), ...bases])];
}

/** Returns the secrets that the bytes contain. */
export function secretsIn(bytes: Buffer | string, secrets: readonly string[]): string[] {
  const text = typeof bytes === "string" ? bytes : bytes.toString("latin1");
  return secrets.filter((secret) => tracesOf(secret).some((trace) => text.includes(trace)));
}

/** Returns the secrets found in all files below the folder, as `file: secret`. */
export function secretsBelow(folder: string, secrets: readonly string[]): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return files.flatMap((file) => {
    if (!file.isFile()) return [];
    const path = join(file.parentPath, file.name);
    return secretsIn(readFileSync(path), secrets).map((secret) => `${path}: ${secret}`);
  });
}
