/**
 * The committer thread. It holds the inter-process lock without waiting for an event loop, so that
 * a busy event loop delays only its own transactions. LMDB's asynchronous transactions call back
 * into the event loop while they hold the lock, and keep partial writes if the callback throws.
 */
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { commitGroups } from "./commit-groups.ts";
import { LmdbCommitter } from "./committer.ts";
import { openEnvironment, reasonOf } from "./environment.ts";
import { BELL_FILE, type LmdbDatabase } from "./layout.ts";
import {
  type CommitterAnswer,
  type CommitterMessage,
  type PackedRequest,
  readRequests,
} from "./messages.ts";

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
  port.on("message", (first: CommitterMessage) => {
    const requests: PackedRequest[] = [];
    const spent: ArrayBuffer[] = [];
    let message: CommitterMessage | undefined = first;
    while (message?.kind === "commit") {
      const { memory, byteCount } = message;
      for (const request of readRequests(Buffer.from(memory, 0, byteCount))) requests.push(request);
      spent.push(memory);
      message = receiveMessageOnPort(port)?.message as CommitterMessage | undefined;
    }
    for (const group of commitGroups(requests)) {
      const outcome = committer.commit(group);
      // Notifies other processes first, since waking them takes longer.
      ringBell();
      answer(outcome);
    }
    if (committer.isGivenUp) answer({ kind: "given-up" });
    // The requests have been copied. Returns the memory immediately, because this thread allocates
    // so few objects that it rarely collects garbage.
    for (const memory of spent) {
      port.postMessage({ kind: "spent", memory } satisfies CommitterAnswer, [memory]);
    }
    if (message?.kind === "close") close();
  });
  answer({ kind: "ready" });

  function answer(message: CommitterAnswer): void {
    port.postMessage(message);
  }

  function ringBell(): void {
    try {
      writeSync(bell, BELL, 0, 1, 0);
    } catch {
      // Writing fails if the disk is full. Other processes then detect the commit at their next
      // poll.
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
