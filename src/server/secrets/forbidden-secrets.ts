/**
 * Files and variables that no reference of a job may name, whatever the operator has released: keys of this server, the folder where
 * they are, and tokens by which a platform recognizes the service. A path is judged by the file that it leads to, and every secret by
 * its content, so that no link, mount or other spelling leads around this.
 */
import { realpathSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { base64Decode, base64Encode, hexEncode } from "../../base/index.ts";

export interface ServerKeys {
  /** Key files, existing or not. */
  readonly files: readonly string[];
  /** Sealing keys of this node. */
  readonly keys: () => readonly Uint8Array[];
}

export const NO_SERVER_KEYS: ServerKeys = { files: [], keys: () => [] };

const KEY_VARIABLE = /^TANDEM_SECRETS_/i;
/** Kernel files that show the environment and memory of processes. */
const KERNEL_FILE = /^\/(proc|sys)\//;
/** Folders of tokens that Kubernetes and clouds mount for a service. */
const TOKEN_FOLDER =
  /\/(serviceaccount|kubernetes\.io|[a-z0-9.-]+\.amazonaws\.com|azure\/tokens|workload-identity|tokens)\//i;
/** Container runtimes mount secrets of all kinds side by side here. */
const SHARED_FOLDERS: ReadonlySet<string> = new Set(["/run/secrets", "/var/run/secrets"]);

export function isForbiddenVariable(name: string): boolean {
  return KEY_VARIABLE.test(name);
}

/** Whether the path leads to a key, to a file beside one, or to a token. `status` is that of the file it leads to. */
export function isForbiddenFile(path: string, status: Stats, { files }: ServerKeys): boolean {
  const actual = realpathSync(path);
  if ([path, actual].some((each) => KERNEL_FILE.test(each) || TOKEN_FOLDER.test(each))) return true;
  return files.some((file) => {
    const key = realPathOf(file);
    if (actual.startsWith(key)) return true;
    const folders = [dirname(key), dirname(resolve(file))];
    const isBeside = folders.includes(dirname(actual)) || folders.includes(dirname(path));
    if (isBeside && !folders.some((folder) => SHARED_FOLDERS.has(folder))) return true;
    // A hard link has another name, and perhaps another folder.
    const found = statSync(key, { throwIfNoEntry: false });
    return found !== undefined && found.dev === status.dev && found.ino === status.ino;
  });
}

/** Whether the text has a sealing key in it, in any usual encoding, or is a token of a service account. */
export function isForbiddenSecret(secret: string, { keys }: ServerKeys): boolean {
  const texts = [secret, secret.toLowerCase()];
  const isKey = keys().some((key) => {
    const base64 = base64Encode(key).replace(/=+$/, "");
    const forms = [base64, base64.replaceAll("+", "-").replaceAll("/", "_"), hexEncode(key)];
    return forms.some((form) => texts.some((text) => text.includes(form)));
  });
  return isKey || isServiceToken(secret);
}

/** A JSON Web Token of a Kubernetes service account. */
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
