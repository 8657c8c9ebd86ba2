/**
 * The committer thread. It holds the inter-process lock without waiting for an event loop, so that
 * a busy event loop delays only the transactions of its process.
 *
 * LMDB's asynchronous transactions are not used: they call back into the event loop while they hold
 * the lock, and keep partial writes if the callback throws.
 */
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { CommitGroups } from "./commit-groups.ts";
import { LmdbCommitter } from "./committer.ts";
import { openEnvironment, reasonOf } from "./environment.ts";
import { BELL_FILE, type LmdbDatabase } from "./layout.ts";
import { type CommitterAnswer, type CommitterMessage, readRequests } from "./messages.ts";

export interface CommitterThreadData {
  readonly directory: string;
  readonly mapBytes: number | undefined;
}

/**
 * Interval of checks for dead readers, because LMDB frees the reader slots of dead processes only
 * on request.
 */
const READER_CHECK_MS = 60_000;

const BELL = Buffer.from([0]);

function run(port: NonNullable<typeof parentPort>): void {
  const { directory, mapBytes } = workerData as CommitterThreadData;
  let database: LmdbDatabase;
  let committer: LmdbCommitter;
  let bell: number;
  try {
    database = openEnvironment(directory, mapBytes);
    committer = new LmdbCommitter(database, directory);
    bell = openSync(join(directory, BELL_FILE), constants.O_RDWR | constants.O_CREAT);
  } catch (error) {
    answer({ kind: "failed", reason: reasonOf(error, directory) });
    port.close();
    return;
  }
  const readerCheck = setInterval(() => database.readerCheck(), READER_CHECK_MS);
  readerCheck.unref();
  const groups = new CommitGroups();
  /** Number of requests in each received buffer that have not been committed. */
  const openCounts = new Map<ArrayBufferLike, number>();
  let isRunning = false;
  let isClosing = false;
  port.on("message", (first: CommitterMessage) => {
    receive(first);
    if (!isRunning) commitNext();
  });
  answer({ kind: "ready" });

  function receive(message: CommitterMessage | undefined): void {
    for (let next = message; next !== undefined; next = receiveMessageOnPort(port)?.message) {
      if (next.kind === "close") isClosing = true;
      else {
        const requests = readRequests(Buffer.from(next.memory, 0, next.byteCount));
        openCounts.set(next.memory, requests.length);
        groups.add(requests);
      }
    }
  }

  /** Commits one group, then schedules the next one. Stops when no requests are waiting. */
  function commitNext(): void {
    const group = groups.next();
    isRunning = group !== undefined;
    if (group === undefined) {
      if (committer.isGivenUp) answer({ kind: "given-up" });
      if (isClosing) close();
      return;
    }
    const outcome = committer.commit(group);
    // Notifies other processes before responding to this one, because waking them takes longer.
    ringBell();
    answer(outcome);
    for (const { mutations } of group) release(mutations.buffer);
    receive(receiveMessageOnPort(port)?.message);
    // Lets timers run, however many requests arrive.
    setImmediate(commitNext);
  }

  /**
   * Returns `memory` to the engine when all requests in it have been committed. Otherwise the
   * memory would stay allocated for long, because this thread allocates so few objects that it
   * rarely collects garbage.
   */
  function release(memory: ArrayBufferLike): void {
    const openCount = (openCounts.get(memory) as number) - 1;
    openCounts.set(memory, openCount);
    if (openCount > 0) return;
    openCounts.delete(memory);
    const spent = memory as ArrayBuffer;
    port.postMessage({ kind: "spent", memory: spent } satisfies CommitterAnswer, [spent]);
  }

  function answer(message: CommitterAnswer): void {
    port.postMessage(message);
  }

  function ringBell(): void {
    try {
      writeSync(bell, BELL, 0, 1, 0);
    } catch {
      // Writing to the file fails if the disk is full. Other processes then notice the commit only
      // at their next poll.
    }
  }

  function close(): void {
    clearInterval(readerCheck);
    closeSync(bell);
    committer.close();
    // `close` resolves immediately, because every commit was synchronous.
    database.close().then(
      () => port.close(),
      () => port.close(),
    );
  }
}

if (parentPort !== null) run(parentPort);
