/**
 * Files and variables that secret references of jobs must not name, even if the operator permits
 * the references. These are keys of this server, files next to a key, and tokens that identify this
 * service to its platform.
 *
 * The target of a path and the content of each secret are checked, so that links, mounts and
 * alternative spellings cannot bypass the check.
 */
import { realpathSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { base64Decode, base64Encode, hexEncode } from "../../base/index.ts";

export interface ServerKeys {
  /** Paths of key files, whether or not the files exist. */
  readonly files: readonly string[];
  /** Sealing keys of this node. */
  readonly keys: () => readonly Uint8Array[];
}

export const NO_SERVER_KEYS: ServerKeys = { files: [], keys: () => [] };

const KEY_VARIABLE = /^TANDEM_SECRETS_/i;
/** Kernel files that expose the environment and memory of processes. */
const KERNEL_FILE = /^\/(proc|sys)\//;
/** Folders of tokens that Kubernetes and clouds mount for services. */
const TOKEN_FOLDER =
  /\/(serviceaccount|kubernetes\.io|[a-z0-9.-]+\.amazonaws\.com|azure\/tokens|workload-identity|tokens)\//i;
/**
 * Folders in which container runtimes mount secrets of all kinds. A secret next to a key is
 * permitted here.
 */
const SHARED_FOLDERS: ReadonlySet<string> = new Set(["/run/secrets", "/var/run/secrets"]);

export function isForbiddenVariable(name: string): boolean {
  return KEY_VARIABLE.test(name);
}

/**
 * Whether the path leads to a key, to a file next to a key, or to a token. `status` is the status
 * of the target file.
 */
export function isForbiddenFile(path: string, status: Stats, { files }: ServerKeys): boolean {
  const actual = realpathSync(path);
  if ([path, actual].some((each) => KERNEL_FILE.test(each) || TOKEN_FOLDER.test(each))) return true;
  return files.some((file) => {
    const key = realPathOf(file);
    if (actual.startsWith(key)) return true;
    const folders = [dirname(key), dirname(resolve(file))];
    const isBeside = folders.includes(dirname(actual)) || folders.includes(dirname(path));
    if (isBeside && !folders.some((folder) => SHARED_FOLDERS.has(folder))) return true;
    // A hard link to a key has a different path, so the inodes are compared.
    const found = statSync(key, { throwIfNoEntry: false });
    return found !== undefined && found.dev === status.dev && found.ino === status.ino;
  });
}

/**
 * Whether the text contains a sealing key in any usual encoding, or a token of a service account.
 */
export function isForbiddenSecret(secret: string, serverKeys: ServerKeys): boolean {
  return containsSealingKey(secret, serverKeys) || isServiceToken(secret);
}

export function containsSealingKey(secret: string, { keys }: ServerKeys): boolean {
  const texts = [secret, secret.toLowerCase()];
  return keys().some((key) => {
    const base64 = base64Encode(key).replace(/=+$/, "");
    const forms = [base64, base64.replaceAll("+", "-").replaceAll("/", "_"), hexEncode(key)];
    return forms.some((form) => texts.some((text) => text.includes(form)));
  });
}

/** Whether the text contains a JSON Web Token of a Kubernetes service account. */
function isServiceToken(secret: string): boolean {
  const [, payload] = /\b[\w-]+\.([\w-]+)\.[\w-]+/.exec(secret) ?? [];
  const bytes = payload && base64Decode(payload.replaceAll("-", "+").replaceAll("_", "/"));
  if (!bytes) return false;
  return /"system:serviceaccount:|"kubernetes\.io/.test(new TextDecoder().decode(bytes));
}

function realPathOf(file: string): string {
  const path = resolve(file);
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
