/**
 * Sources of the keys that seal secrets: the environment, a configured file, or a file created at
 * the first start. A file contains one key per line, base64 of 32 bytes, newest last; lines that
 * begin with `#` are comments.
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
  /** Keys from an environment variable, comma-separated, newest last. */
  | { readonly kind: "environment"; readonly text: string }
  /**
   * A key file. With `isNamed`, the file must exist. Otherwise it is created if the store has no
   * key yet.
   */
  | { readonly kind: "file"; readonly path: string; readonly isNamed: boolean }
  /** A generated key that exists only in this process, for a store that does so, too. */
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

/** Unusable keys. The message names their source and the remedy. */
export class KeySourceError extends OperationalError {
  override readonly name = "KeySourceError";

  constructor(message: string, options?: ErrorOptions) {
    super("CONFIG_INVALID", message, {}, options);
  }
}

const FILE_HEAD =
  "# Keys that seal Tandem's secrets, newest last. Without these keys the secrets of the store are lost; keep a copy elsewhere.\n";

/** The environment takes precedence over the configuration. */
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

/**
 * Returns the keys, oldest first. Throws a KeySourceError that names the source but not its
 * content.
 */
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

/** Creates the first key. If another process creates the file concurrently, its file is kept. */
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

/** Adds a key as the newest and returns its id. It is durable when this returns. */
export function addKey(path: string, random: Random): string {
  const key = random.bytes(KEY_BYTES);
  replaceKeys(path, [...readKeyFile({ kind: "file", path, isNamed: true }), key]);
  return keyIdOf(key);
}

/** Keeps only the keys with these ids. Returns the ids of the removed ones. */
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

/** Writes a durable file next to `path`, readable only by its owner. Returns its path. */
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
    "name another file by [secrets] key_file or TANDEM_SECRETS_KEY_FILE, or set TANDEM_SECRETS_KEY";
  const reason = (error as Error).message;
  return new KeySourceError(`key file ${path} cannot be written (${reason}): ${advice}`, {
    cause: error,
  });
}

/** How an operator provides a key, for messages. */
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
