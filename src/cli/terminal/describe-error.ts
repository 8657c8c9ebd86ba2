/** Converts errors of commands to a sentence on standard error and an exit code. */
import { errorCode, OperationalError } from "../../base/index.ts";
import type { RetriedFailure } from "../../http-client/index.ts";
import { describeFailure, EndpointError, ReplicationInvalidError } from "../../replicator/index.ts";
import { printable } from "./table.ts";
import { columnsOf, wrapped } from "./width.ts";
import { WrongUse } from "./wrong-use.ts";

/** Codes of errors in the configuration: a setting, a sealing key, or the choice of store. */
const CONFIGURATION_CODES: ReadonlySet<string> = new Set([
  "CONFIG_INVALID",
  "KV_UNUSABLE",
  "SECRETS_KEY_MISSING",
]);

/**
 * Prints the error and sets the exit code: 2 for usage and configuration errors, 1 for all others.
 */
export function reportError(error: unknown): void {
  report(describeError(error));
  process.exitCode = exitCodeOf(error);
}

/** Prints a sentence, wrapped to the width of standard error. */
function report(sentence: string): void {
  const lines = wrapped(`tandem: ${printable(sentence)}`, columnsOf(process.stderr));
  process.stderr.write(`${lines.join("\n")}\n`);
}

export function exitCodeOf(error: unknown): 1 | 2 {
  const isUsage =
    error instanceof WrongUse ||
    error instanceof ReplicationInvalidError ||
    CONFIGURATION_CODES.has(errorCode(error) ?? "");
  return isUsage ? 2 : 1;
}

/**
 * Reports retries on standard error, once per kind of failure, so that a waiting command is not
 * silent.
 */
export function retryReporter(): (failure: RetriedFailure) => void {
  const reported = new Set<string>();
  return ({ error, status }) => {
    const kind = error instanceof OperationalError ? `${error.code} ${error.details.cause}` : "";
    const key = error === undefined ? String(status) : kind;
    if (reported.has(key)) return;
    reported.add(key);
    const sentence =
      error === undefined ? `a server responded with ${status}` : describeError(error);
    report(`${sentence}; retrying`);
  };
}

/** Codes of errors whose reason is a complete description: it names the request and the server. */
const SENTENCES: ReadonlySet<string> = new Set(["HTTP_REQUEST_FAILED", "HTTP_LOGIN_GATED"]);

/**
 * A description of the error, with its cause if known: the folder, file, server, or missing
 * package.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ReplicationInvalidError) return error.reason;
  if (error instanceof EndpointError) return `${error.error}: ${error.reason}`;
  if (error instanceof OperationalError) {
    if (SENTENCES.has(error.code)) return describeFailure(error).reason;
    const { reason } = error.details;
    return reason === undefined ? error.message : `${error.message}: ${String(reason)}`;
  }
  return isSystemError(error) ? describeSystemError(error) : error.message;
}

/** An error of a system call on files or sockets. */
interface SystemError extends NodeJS.ErrnoException {
  readonly code: string;
  readonly syscall: string;
}

function isSystemError(error: Error): error is SystemError {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return typeof code === "string" && typeof syscall === "string";
}

const FILE_SENTENCES: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EEXIST: "it already exists",
  EISDIR: "it is a folder",
  ENOENT: "there is no such file or folder",
  ENOSPC: "no space is left on its disk",
  ENOTDIR: "part of its path is a file, not a folder",
  EPERM: "permission denied",
  EROFS: "it is on a read-only file system",
};

function describeSystemError(error: SystemError): string {
  const { code, path } = error;
  if (path !== undefined && code in FILE_SENTENCES) return `${path}: ${FILE_SENTENCES[code]}`;
  return error.message;
}
