/** Looks for secrets where none may be: in any encoding in which a program may have written them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A secret as it is, escaped for a URL, and in base64 behind whatever may stand before it. */
export function tracesOf(secret: string): string[] {
  const bases = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString("base64");
    // The first digits belong to what stands before, the last ones to what stands behind, too.
    return encoded
      .slice(before === 0 ? 0 : 4)
      .replace(/=+$/, "")
      .slice(0, -1);
  });
  return [...new Set([secret, encodeURIComponent(secret), ...bases])];
}

/** Which of the secrets stand in the bytes. */
export function secretsIn(bytes: Buffer | string, secrets: readonly string[]): string[] {
  const text = typeof bytes === "string" ? bytes : bytes.toString("latin1");
  return secrets.filter((secret) => tracesOf(secret).some((trace) => text.includes(trace)));
}

/** `file: secret`, for all files below the folder. */
export function secretsBelow(folder: string, secrets: readonly string[]): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return files.flatMap((file) => {
    if (!file.isFile()) return [];
    const path = join(file.parentPath, file.name);
    return secretsIn(readFileSync(path), secrets).map((secret) => `${path}: ${secret}`);
  });
}
