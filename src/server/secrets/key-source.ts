/**
 * Where the keys that seal secrets come from: the environment, a file that is named, or a file that the first start makes. A file has
 * one key a line, base64 of 32 bytes, the newest last; what begins with `#` is a comment.
 */
import { randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { base64Decode, base64Encode, OperationalError, type Random } from "../../base/index.ts";
import { KEY_BYTES, keyIdOf } from "./key-ring.ts";

export type KeySource =
  /** Keys with commas between them, the newest last. */
  | { readonly kind: "environment"; readonly text: string }
  /** `isNamed`: it has to be there. Another is made when the store has no key yet. */
  | { readonly kind: "file"; readonly path: string; readonly isNamed: boolean }
  /** A key of the process, for a store that does not outlive it. */
  | { readonly kind: "process"; readonly key: Uint8Array };

export interface KeySourceOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `[secrets] key_file`. */
  readonly namedFile: string | undefined;
  readonly configFile: string | undefined;
  readonly dataDirectory: string;
  readonly random: Random;
  /** Whether the store outlives the process. */
  readonly isLasting: boolean;
}

/** Keys that cannot be used; the message says from where, and what to do. */
export class KeySourceError extends OperationalError {
  override readonly name = "KeySourceError";

  constructor(message: string, options?: ErrorOptions) {
    super("CONFIG_INVALID", message, {}, options);
  }
}

const FILE_HEAD =
  "# Keys of Tandem's secrets, the newest last. Without them the secrets of the store are lost: keep a copy elsewhere.\n";

/** The environment comes before the configuration. */
export function keySource(options: KeySourceOptions): KeySource {
  const { environment, namedFile, configFile, dataDirectory, random, isLasting } = options;
  const { TANDEM_SECRETS_KEY: text, TANDEM_SECRETS_KEY_FILE: path = namedFile } = environment;
  if (text !== undefined) return { kind: "environment", text };
  if (path !== undefined) return { kind: "file", path: resolve(path), isNamed: true };
  if (!isLasting) return { kind: "process", key: random.bytes(KEY_BYTES) };
  const data = resolve(dataDirectory);
  const folder = dirname(configFile === undefined ? data : resolve(configFile));
  return { kind: "file", path: join(folder, `${basename(data)}.key`), isNamed: false };
}

/** Oldest first. Throws a KeySourceError that names the place, and never what stands there. */
export function readKeys(source: KeySource): readonly Uint8Array[] {
  switch (source.kind) {
    case "process":
      return [source.key];
    case "environment":
      return source.text.split(",").map((text) => parseKey(text, "TANDEM_SECRETS_KEY"));
    case "file":
      return readKeyFile(source);
  }
}

function readKeyFile({ path, isNamed }: KeySource & { kind: "file" }): readonly Uint8Array[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (!isNamed && (error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw new KeySourceError(`key file ${path}: ${(error as Error).message}`, { cause: error });
  }
  const lines = text.split("\n").map((line) => line.trim());
  const keys = lines.filter((line) => line !== "" && !line.startsWith("#"));
  return keys.map((line) => parseKey(line, `key file ${path}`));
}

function parseKey(text: string, place: string): Uint8Array {
  const key = base64Decode(text.trim());
  if (key?.length !== KEY_BYTES) {
    throw new KeySourceError(`${place}: expected keys of ${KEY_BYTES} bytes in base64`);
  }
  return key;
}

/** Makes the first key. Another process that does the same at the same time finds its file, or leaves it. */
export function makeKeyFile(path: string, random: Random): void {
  const written = writeBeside(path, [random.bytes(KEY_BYTES)]);
  try {
    linkSync(written, path);
    syncFolder(path);
  } catch (error) {
    if (!existsSync(path)) throw unwritable(path, error);
  } finally {
    rmSync(written, { force: true });
  }
}

/** Adds a key as the newest; its id. It is on the disk when this returns. */
export function addKey(path: string, random: Random): string {
  const key = random.bytes(KEY_BYTES);
  replaceKeys(path, [...readKeyFile({ kind: "file", path, isNamed: true }), key]);
  return keyIdOf(key);
}

/** Keeps the keys with these ids only; the ids of those that went. */
export function keepKeys(path: string, ids: ReadonlySet<string>): readonly string[] {
  const keys = readKeyFile({ kind: "file", path, isNamed: true });
  const kept = keys.filter((key) => ids.has(keyIdOf(key)));
  if (kept.length < keys.length) replaceKeys(path, kept);
  return keys.map(keyIdOf).filter((id) => !ids.has(id));
}

function replaceKeys(path: string, keys: readonly Uint8Array[]): void {
  const written = writeBeside(path, keys);
  try {
    renameSync(written, path);
    syncFolder(path);
  } catch (error) {
    rmSync(written, { force: true });
    throw unwritable(path, error);
  }
}

/** A file beside the other, for its owner only, that is on the disk; its path. */
function writeBeside(path: string, keys: readonly Uint8Array[]): string {
  const written = `${path}.${randomUUID()}`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    const file = openSync(written, "wx", 0o600);
    try {
      writeSync(file, FILE_HEAD + keys.map((key) => `${base64Encode(key)}\n`).join(""));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    return written;
  } catch (error) {
    throw unwritable(path, error);
  }
}

function syncFolder(path: string): void {
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function unwritable(path: string, error: unknown): KeySourceError {
  const advice =
    "name another by [secrets] key_file or TANDEM_SECRETS_KEY_FILE, or set TANDEM_SECRETS_KEY";
  const reason = (error as Error).message;
  return new KeySourceError(`key file ${path} cannot be written (${reason}): ${advice}`, {
    cause: error,
  });
}

/** How an operator gives a key, for messages. */
export function describeSource(source: KeySource): string {
  switch (source.kind) {
    case "process":
      return "this process";
    case "environment":
      return "TANDEM_SECRETS_KEY";
    case "file":
      return `the key file ${source.path}`;
  }
}
