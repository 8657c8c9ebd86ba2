/** `tandem replicate`: a replication in this process, with the same components as on a node. */
import { readFileSync } from "node:fs";
import { parseJson } from "../../base/index.ts";
import { type Connections, type OwnRun, openOwnRun } from "../../library/index.ts";
import {
  type DocumentFailure,
  describeFailure,
  isMissing,
  MemoryRunFailures,
  parseReplication,
  type ReplicationEnding,
  ReplicationInvalidError,
  type ReplicationLog,
  StopRequest,
} from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { describeError, exitCodeOf, reportError } from "../terminal/describe-error.ts";
import { Progress } from "../terminal/progress.ts";
import { onStopSignal } from "../terminal/stop-signals.ts";
import { type AllFlags, refuseWithoutAll } from "./all-databases.ts";
import { type ConnectionFlags, openConnections } from "./command-connections.ts";
import {
  type AuthFiles,
  checkUrls,
  sidesOf,
  withCredentials,
  withLoginAdvice,
} from "./endpoint-credentials.ts";
import { leftBehind } from "./left-behind.ts";

const DRAW_INTERVAL_MS = 100;
/** JSON output of an interrupted run. */
const STOPPED = { ok: false, error: "stopped", reason: "it was interrupted" };

interface ReplicateFlags extends AllFlags, AuthFiles, ConnectionFlags {
  readonly createTarget?: boolean;
  readonly continuous?: boolean;
  readonly selector?: string;
  readonly docIds?: string;
  readonly skipDeleted?: boolean;
  readonly maxDocumentBytes?: number;
  readonly maxAttachmentBytes?: number;
  readonly filter?: string;
  readonly since?: string;
}

export async function replicate(
  source: string,
  target: string,
  flags: ReplicateFlags,
): Promise<void> {
  const connections = openConnections(flags);
  const sides = sidesOf(source, target, flags);
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(new StopRequest());
  onStopSignal(stop);
  const failureLog = new MemoryRunFailures();
  const startedAtMs = performance.now();
  let opened: OwnRun | undefined;
  try {
    refuseWithoutAll(flags);
    checkUrls({ SOURCE: source, TARGET: target });
    const endpoints = await withCredentials(sides);
    const replication = parseReplication({ ...endpoints, ...optionsOf(flags) });
    opened = await openOwnRun({ connections, failures: failureLog }, replication, stopping.signal);
    const ending = await showing(opened, { connections, failureLog, flags }, stopping.signal);
    const { failures } = failureLog;
    report(ending, failures, flags.json === true);
    if (flags.json !== true) {
      const { docsWritten } = opened.run.ownStatistics;
      const seconds = (performance.now() - startedAtMs) / 1000;
      process.stdout.write(summaryOf(docsWritten, failures, seconds));
    }
    if (ending.kind === "stopped" && flags.json !== true) {
      process.stderr.write("stopped; run the same command again to continue\n");
    }
    process.exitCode = ending.kind === "stopped" || failures.length > 0 ? 1 : 0;
  } catch (error) {
    if (flags.json === true) {
      process.stdout.write(`${JSON.stringify(describeFailure(error))}\n`);
      process.exitCode = exitCodeOf(error);
    } else if (isMissingTarget(error, opened)) reportError(withTargetAdvice(error));
    else reportError(await withLoginAdvice(error, sides));
  } finally {
    await connections.close();
  }
}

/** Whether the error means that the target does not exist. */
function isMissingTarget(error: unknown, opened: OwnRun | undefined): boolean {
  if (opened === undefined || !isMissing(error)) return false;
  const { source, target } = opened;
  return source.shownUrl !== target.shownUrl && describeError(error).includes(target.shownUrl);
}

function withTargetAdvice(error: unknown): Error {
  const sentence = `${describeError(error)}; use --create-target to create the target`;
  return new Error(sentence, { cause: error });
}

/** Runs the replication and shows its progress, unless JSON was requested. */
async function showing(
  { run, caughtUp }: OwnRun,
  {
    connections,
    failureLog,
    flags,
  }: {
    readonly connections: Connections;
    readonly failureLog: MemoryRunFailures;
    readonly flags: ReplicateFlags;
  },
  signal: AbortSignal,
): Promise<ReplicationEnding> {
  if (flags.json === true) return run.run(signal);
  const progress = new Progress("copying", process.stderr);
  const { activity } = connections;
  /** Estimated total: documents written, plus changes pending according to the source. */
  const totalOf = (): number | undefined => {
    const { pendingChangeCount: pending } = caughtUp;
    return pending === undefined ? undefined : run.progress.statistics.docsWritten + pending;
  };
  const figures = () => ({
    byteCount: activity.byteCount,
    failureCount: failureLog.failures.length,
    isWaiting: flags.continuous === true && caughtUp.isCaughtUp,
  });
  const timer = setInterval(() => {
    progress.show(run.progress.statistics.docsWritten, totalOf(), figures());
  }, DRAW_INTERVAL_MS);
  let isWhole = false;
  try {
    const ending = await caughtUp.during(() => run.run(signal));
    isWhole = ending.kind === "completed";
    return ending;
  } finally {
    clearInterval(timer);
    const { docsWritten } = run.progress.statistics;
    progress.end(docsWritten, isWhole ? docsWritten : totalOf(), figures());
  }
}

function optionsOf(flags: ReplicateFlags): Record<string, unknown> {
  return {
    create_target: flags.createTarget === true,
    continuous: flags.continuous === true,
    ...(flags.selector === undefined ? {} : { selector: parseSelector(flags.selector) }),
    ...(flags.docIds === undefined ? {} : { doc_ids: readIds(flags.docIds) }),
    ...(flags.skipDeleted === true ? { deleted: "skip" } : {}),
    ...bytesMax("documents", flags.maxDocumentBytes),
    ...bytesMax("attachments", flags.maxAttachmentBytes),
    ...(flags.filter === undefined ? {} : { filter: flags.filter }),
    ...(flags.since === undefined ? {} : { since_seq: flags.since }),
  };
}

function bytesMax(name: string, bytes: number | undefined): Record<string, unknown> {
  return bytes === undefined ? {} : { [name]: { max_bytes: bytes } };
}

function parseSelector(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw new ReplicationInvalidError(`--selector ${text}: expected JSON`);
  }
}

/**
 * Reads document ids from `file`. Rejects a file without ids, because copying nothing would look
 * like success.
 */
function readIds(file: string): unknown {
  let ids: unknown;
  try {
    ids = parseIds(readFileSync(file, "utf8"));
  } catch (error) {
    throw new ReplicationInvalidError(`--doc-ids ${file}: ${(error as Error).message}`);
  }
  if (Array.isArray(ids) && ids.length === 0) {
    throw new ReplicationInvalidError(`--doc-ids ${file}: the file contains no document ids`);
  }
  return ids;
}

/**
 * Parses document ids: a JSON array, or one id per line. Skips the byte order mark that some
 * editors write.
 */
function parseIds(text: string): unknown {
  const unmarked = text.replace(/^\ufeff/, "");
  if (!unmarked.trimStart().startsWith("[")) {
    return unmarked.split(/\r?\n/).filter((line) => line !== "");
  }
  try {
    return JSON.parse(unmarked);
  } catch {
    throw new Error("expected a JSON array of ids, or one id per line");
  }
}

/** Summary of a run, such as `200 documents copied, 0 failed, 1.2 s`. */
export function summaryOf(
  copiedCount: number,
  failures: readonly Pick<DocumentFailure, "id">[],
  seconds: number,
): string {
  const failedCount = new Set(failures.map(({ id }) => id)).size;
  return `${counted(copiedCount, "document")} copied, ${failedCount} failed, ${seconds.toFixed(1)} s\n`;
}

function report(
  ending: ReplicationEnding,
  failures: readonly DocumentFailure[],
  asJson: boolean,
): void {
  if (asJson) {
    const outcome =
      ending.kind === "completed" ? { ok: failures.length === 0, ...ending.result } : STOPPED;
    process.stdout.write(`${JSON.stringify({ ...outcome, failures })}\n`);
    return;
  }
  const result = ending.kind === "completed" ? ending.result : {};
  if (result.no_changes === true) process.stdout.write("no changes\n");
  const { docs_left_out: leftOutCount = 0 } = (result as ReplicationLog).history?.[0] ?? {};
  if (leftOutCount > 0) process.stdout.write(`${leftOutCount} skipped as requested\n`);
  process.stdout.write(leftBehind(failures));
}
