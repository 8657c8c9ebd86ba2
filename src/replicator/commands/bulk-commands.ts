/** Starts, continues, cancels and undoes commands for many jobs (`bulk-command.ts`). */
import { errorCode, type Runtime, randomHex, utf8Encode } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import {
  type KeyValueStore,
  type ReadTransaction,
  removeInBackground,
  type Subspace,
  type Transaction,
} from "../../kv/index.ts";
import type { ReplacementContent } from "../credential-replacements.ts";
import type { JobFailures } from "../failures/job-failures.ts";
import type { JobFilter } from "../job-lists/job-filter.ts";
import type { JobLists } from "../job-lists/job-lists.ts";
import { COMMAND_TYPE } from "../job-watching/parked-jobs.ts";
import type { Decider } from "../jobs/job-control.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import {
  type BulkAction,
  type BulkCommand,
  decodeBulkCommand,
  decodeJobIds,
  encodeBulkCommand,
  encodeJobIds,
  OPPOSITES,
  REPLACE_CREDENTIALS,
} from "./bulk-command.ts";
import type { CommandOutcome, CommandOutcomes, JobCommands } from "./job-commands.ts";
import type { ReplacementCommands } from "./replacement-commands.ts";

/**
 * Maximum size of a page of a list, in jobs and in bytes of JSON, in which a control character has
 * six bytes. A FoundationDB value is limited to 100,000 bytes.
 */
const PAGE_MAX = { jobs: 500, bytes: 50_000 };
/** Number of jobs changed per transaction. */
const BATCH = { min: 1, first: 20, max: 200 };
/**
 * Duration after which a transaction takes no further jobs, and the next batch has half the size.
 */
const BATCH_MS_MAX = 100;
/**
 * Number of jobs of a transaction that are changed between two turns of the event loop; some 6 ms.
 * They are read at once, although the request and the document of a job can have megabytes.
 */
const TURN_MAX = 20;
/** Limits for the part of a command that is performed before its request is answered with 202. */
const WITHIN_REQUEST = { ms: 2_000, jobs: 1_000 };
/** Delay after which another node continues a command that its request has not completed. */
const TAKE_OVER_SEC = 30;
/** Age at which ended commands are deleted, with their lists. */
const AGE_MS_MAX = 7 * 24 * 3600 * 1000;
/** Maximum number of commands deleted per transaction. */
const FORGOTTEN_MAX = 20;

export interface BulkCommandsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly jobs: Jobs;
  readonly lists: JobLists;
  readonly controls: JobControls;
  readonly commands: JobCommands;
  readonly failures: JobFailures;
  readonly replacements: ReplacementCommands;
}

/**
 * - missing: there is no such command
 * - running: the command must be cancelled first
 * - final: the action of the command cannot be undone
 * - not-kept: the former credentials are not kept
 */
export type UndoRefusal = "missing" | "running" | "final" | "not-kept";

type OnChanged = (jobIds: readonly string[]) => void;

type Apply = (
  tx: Transaction,
  jobIds: readonly string[],
  command: BulkCommand,
) => Promise<CommandOutcomes>;

/** A command after one transaction, and the jobs that it has changed. */
interface Advanced {
  readonly command: BulkCommand | undefined;
  readonly changedIds: readonly string[];
}

export class BulkCommands {
  readonly #parts: BulkCommandsParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: BulkCommandsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /**
   * Applies an action to the jobs that match the filter. If this takes longer than a request is
   * allowed to, the call returns, and a node continues in the background. `onChanged` receives the
   * ids of the jobs that are changed until then.
   */
  async start(
    action: BulkAction,
    filter: JobFilter,
    decider: Decider,
    onChanged?: OnChanged,
  ): Promise<BulkCommand> {
    const id = this.#newId();
    const { matched, setLast } = await this.#select(id, this.#parts.lists.ids(filter));
    return this.#begin({ id, action, decider, matched, onChanged }, setLast);
  }

  /**
   * Replaces the credentials of the jobs `jobIds`, and then those of the rules in `content`. Like
   * `start`, it might return early and continue in the background.
   */
  async replaceCredentials(
    jobIds: readonly string[],
    content: ReplacementContent,
    decider: Decider,
  ): Promise<BulkCommand> {
    const id = this.#newId();
    const { matched, setLast } = await this.#select(id, [jobIds]);
    return this.#begin({ id, action: REPLACE_CREDENTIALS, decider, matched }, async (tx) => {
      setLast(tx);
      await this.#parts.replacements.begin(tx, id, content);
    });
  }

  /**
   * Reverts a command. Skips jobs about which an operator has made another decision since the
   * command.
   */
  async undo(id: string, decider: Decider): Promise<BulkCommand | UndoRefusal> {
    const undone = await this.get(id);
    if (undone === undefined) return "missing";
    if (undone.action === REPLACE_CREDENTIALS) return "not-kept";
    const action = OPPOSITES[undone.action];
    if (action === undefined || undone.undoes !== undefined) return "final";
    if (undone.state === "running") return "running";
    return this.#begin({ id: this.#newId(), action, decider, matched: undone.done, undoes: id });
  }

  /** Stops a command. Does not revert the jobs already changed. */
  cancel(id: string): Promise<"done" | "ended" | "missing"> {
    return this.#parts.kv.transact(
      async (tx) => {
        const command = await this.#read(tx, id);
        if (command === undefined) return "missing";
        if (command.state !== "running") return "ended";
        await this.#end(tx, { ...command, state: "cancelled" });
        return "done";
      },
      { whenUnknown: "retry" },
    );
  }

  get(id: string): Promise<BulkCommand | undefined> {
    return this.#parts.kv.read((tx) => this.#read(tx, id));
  }

  /** Returns the latest commands, newest first. */
  async latest(limit: number): Promise<readonly BulkCommand[]> {
    const range = this.#keys.command.range();
    const page = await this.#parts.kv.read((tx) =>
      tx.getRangePage(range, { limit, reverse: true }),
    );
    return page.entries.map(({ key, value }) =>
      decodeBulkCommand(this.#keys.command.unpack(key).id, value),
    );
  }

  /** Continues a command until it has ended or the signal aborts. */
  async finish(id: string, signal: AbortSignal): Promise<BulkCommand | undefined> {
    return this.#continue(id, () => signal.aborted);
  }

  /** Deletes old commands. Returns whether there might be more. */
  async forget(): Promise<boolean> {
    const { kv, jobs, runtime } = this.#parts;
    const nowMs = runtime.clock.nowMs();
    const before = this.#idAt(nowMs - AGE_MS_MAX, "");
    const { command, commandPage } = this.#keys;
    const commands = { begin: command.range().begin, end: command.key({ id: before }) };
    // The range includes lists without a command, stored by a node that was killed before the
    // command began.
    const lists = { begin: commandPage.range().begin, end: commandPage.prefixKey({ id: before }) };
    return kv.transact(
      async (tx) => {
        const { entries } = await tx.getRangePage(commands, { limit: FORGOTTEN_MAX });
        for (const { key } of entries) {
          const { id } = command.unpack(key);
          tx.clear(key);
          this.#parts.replacements.end(tx, id);
          await jobs.remove(tx, { type: COMMAND_TYPE, id });
        }
        const first = await tx.getRangePage(lists, { limit: 1 });
        if (first.entries.length > 0) {
          removeInBackground(tx, lists, { kind: "command", subject: before, nowMs });
        }
        return entries.length === FORGOTTEN_MAX;
      },
      { whenUnknown: "retry" },
    );
  }

  /**
   * Collects the ids of the selected jobs in a list, and stores all pages of the list except the
   * last one. `setLast` stores the last one.
   */
  async #select(
    id: string,
    pages: AsyncIterable<readonly string[]> | Iterable<readonly string[]>,
  ): Promise<{ readonly matched: number; readonly setLast: (tx: Transaction) => void }> {
    let [matched, pageCount, byteCount] = [0, 0, 0];
    let rest: string[] = [];
    for await (const jobIds of pages) {
      for (const jobId of jobIds) {
        const idBytes = utf8Encode(JSON.stringify(jobId)).length + 1;
        if (rest.length === PAGE_MAX.jobs || byteCount + idBytes > PAGE_MAX.bytes) {
          const [page, full] = [pageCount++, rest];
          await this.#parts.kv.transact(async (tx) => this.#setPage(tx, id, page, full), {
            whenUnknown: "retry",
          });
          [rest, byteCount] = [[], 0];
        }
        rest.push(jobId);
        byteCount += idBytes;
        matched++;
      }
    }
    const setLast = (tx: Transaction) => {
      if (rest.length > 0) this.#setPage(tx, id, pageCount, rest);
    };
    return { matched, setLast };
  }

  async #begin(
    asked: Pick<BulkCommand, "id" | "action" | "matched"> & {
      readonly decider: Decider;
      readonly undoes?: string;
      readonly onChanged?: OnChanged | undefined;
    },
    store: (tx: Transaction) => void | Promise<void> = () => {},
  ): Promise<BulkCommand> {
    const { runtime, kv, jobs } = this.#parts;
    const { onChanged, ...given } = asked;
    const command: BulkCommand = {
      ...given,
      undoes: asked.undoes,
      state: "running",
      startedMs: runtime.clock.nowMs(),
      endedMs: undefined,
      ...{ done: 0, changed: 0, failed: 0 },
      next: { page: 0, index: 0 },
    };
    const job = { type: COMMAND_TYPE, id: command.id };
    const nowSec = Math.floor(command.startedMs / 1000);
    await kv.transact(
      async (tx) => {
        await store(tx);
        tx.set(this.#keys.command.key({ id: command.id }), encodeBulkCommand(command));
        const { requestId } = given.decider;
        const data = requestId === undefined ? {} : { requestId };
        await jobs.add(tx, job, data, { scheduledAtSec: nowSec + TAKE_OVER_SEC });
      },
      { whenUnknown: "retry" },
    );
    const untilMs = runtime.clock.monotonicMs() + WITHIN_REQUEST.ms;
    const last = await this.#continue(
      command.id,
      ({ done }) => done >= WITHIN_REQUEST.jobs || runtime.clock.monotonicMs() >= untilMs,
      onChanged,
    );
    if (last?.state === "running") {
      await kv.transact((tx) => jobs.resubmit(tx, job, nowSec), { whenUnknown: "retry" });
    }
    return last ?? command;
  }

  async #continue(
    id: string,
    isOver: (command: BulkCommand) => boolean,
    onChanged: OnChanged = () => {},
  ): Promise<BulkCommand | undefined> {
    const { clock } = this.#parts.runtime;
    let limit = BATCH.first;
    for (;;) {
      const startMs = clock.monotonicMs();
      const { command, changedIds } = await this.#advanceOrSkip(id, limit);
      onChanged(changedIds);
      if (command?.state === "running" && command.done >= command.matched) {
        return this.#changeRules(command);
      }
      if (command?.state !== "running" || isOver(command)) return command;
      const isSlow = clock.monotonicMs() - startMs > BATCH_MS_MAX;
      limit = isSlow ? Math.max(BATCH.min, limit >> 1) : Math.min(BATCH.max, limit * 2);
    }
  }

  /**
   * Replaces the credentials of a command's rules, after those of all its jobs, and ends the
   * command.
   */
  async #changeRules({ id }: BulkCommand): Promise<BulkCommand | undefined> {
    const { kv, replacements } = this.#parts;
    const rules = await replacements.applyToRules(id);
    return kv.transact(
      async (tx) => {
        const command = await this.#read(tx, id);
        return command?.state === "running"
          ? this.#end(tx, { ...command, state: "completed", rules })
          : command;
      },
      { whenUnknown: "retry" },
    );
  }

  /**
   * Calls `#advance`. If a job cannot be changed, or the transaction is too large, processes the
   * next job alone, and counts it as failed if it still cannot be changed.
   */
  async #advanceOrSkip(id: string, limit: number): Promise<Advanced> {
    for (const step of [limit, BATCH.min]) {
      try {
        return await this.#advance(id, step);
      } catch (error) {
        if (isOfStore(error)) throw error;
      }
    }
    return this.#advance(
      id,
      BATCH.min,
      async (_, jobIds) => new Map(jobIds.map((jobId) => [jobId, "ended"])),
    );
  }

  /**
   * Processes the next jobs in one transaction: at most `limit`, and fewer if they take long or if
   * the transaction is repeated. Nodes that do this concurrently conflict, so that each job is
   * processed once.
   */
  #advance(
    id: string,
    limit: number,
    apply: Apply = (...asked) => this.#apply(...asked),
  ): Promise<Advanced> {
    const { kv, runtime } = this.#parts;
    let attempt = 0;
    return kv.transact(async (tx) => {
      const countMax = Math.max(BATCH.min, Math.floor(limit / 2 ** attempt++));
      const startMs = runtime.clock.monotonicMs();
      const command = await this.#read(tx, id);
      if (command?.state !== "running") return { command, changedIds: [] };
      const { page, index } = command.next;
      const stored = await tx.get(this.#keys.commandPage.key({ id: command.undoes ?? id, page }));
      const jobIds = stored === undefined ? [] : decodeJobIds(stored);
      const left = command.matched - command.done;
      const end = Math.min(jobIds.length, index + Math.min(countMax, left));
      const outcomes = new Map<string, CommandOutcome>();
      let at = index;
      while (at < end && (at === index || runtime.clock.monotonicMs() - startMs < BATCH_MS_MAX)) {
        if (at > index) await runtime.clock.sleep(0);
        const turn = jobIds.slice(at, Math.min(end, at + TURN_MAX));
        const asked = [...new Set(turn)].filter((jobId) => !outcomes.has(jobId));
        const part = await apply(tx, asked, command);
        for (const [jobId, outcome] of part) outcomes.set(jobId, outcome);
        at += turn.length;
      }
      const changedIds = [...outcomes.keys()].filter((jobId) => outcomes.get(jobId) === "done");
      const isFailed = (outcome: CommandOutcome) => outcome === "ended" || outcome === "paused";
      const failed = command.failed + [...outcomes.values()].filter(isFailed).length;
      const next = at < jobIds.length ? { page, index: at } : { page: page + 1, index: 0 };
      const changed = command.changed + changedIds.length;
      const advanced = { ...command, done: command.done + at - index, changed, failed, next };
      const isListDone = advanced.done >= command.matched || at === index;
      if (isListDone && command.action === REPLACE_CREDENTIALS) {
        const listed = { ...advanced, matched: advanced.done };
        tx.set(this.#keys.command.key({ id }), encodeBulkCommand(listed));
        return { command: listed, changedIds };
      }
      if (!isListDone) {
        tx.set(this.#keys.command.key({ id }), encodeBulkCommand(advanced));
        return { command: advanced, changedIds };
      }
      const ended = await this.#end(tx, { ...advanced, state: "completed" });
      return { command: ended, changedIds };
    });
  }

  async #apply(
    tx: Transaction,
    jobIds: readonly string[],
    command: BulkCommand,
  ): Promise<CommandOutcomes> {
    const { commands, replacements } = this.#parts;
    const { id, action, decider } = command;
    if (action === "retry_failures") return this.#retryFailures(tx, jobIds, command);
    if (action === REPLACE_CREDENTIALS) return replacements.apply(tx, jobIds, command);
    const undoable = await this.#undoable(tx, jobIds, command);
    return commands.applyToAll(tx, undoable, action, { ...decider, command: id });
  }

  async #retryFailures(
    tx: Transaction,
    jobIds: readonly string[],
    { id, action, decider }: BulkCommand,
  ): Promise<CommandOutcomes> {
    const { commands, failures } = this.#parts;
    const outcomes = new Map<string, CommandOutcome>();
    for (const jobId of jobIds) {
      const outcome = await failures.askRetryIn(tx, jobId);
      if (outcome === "done") commands.announce(tx, jobId, { ...decider, action, command: id });
      outcomes.set(jobId, outcome);
    }
    return outcomes;
  }

  /**
   * Returns the jobs to change: all, or for an undo, those about which no operator has made another
   * decision since.
   */
  async #undoable(
    tx: Transaction,
    jobIds: readonly string[],
    { undoes }: BulkCommand,
  ): Promise<readonly string[]> {
    if (undoes === undefined) return jobIds;
    const controls = await this.#parts.controls.getMany(tx, jobIds);
    return jobIds.filter((_, index) => controls[index]?.events[0]?.command === undoes);
  }

  async #end(tx: Transaction, ended: BulkCommand): Promise<BulkCommand> {
    const command = { ...ended, endedMs: this.#parts.runtime.clock.nowMs() };
    this.#parts.replacements.end(tx, command.id);
    tx.set(this.#keys.command.key({ id: command.id }), encodeBulkCommand(command));
    await this.#parts.jobs.remove(tx, { type: COMMAND_TYPE, id: command.id });
    return command;
  }

  async #read(tx: ReadTransaction, id: string): Promise<BulkCommand | undefined> {
    const value = await tx.get(this.#keys.command.key({ id }));
    return value && decodeBulkCommand(id, value);
  }

  #setPage(tx: Transaction, id: string, page: number, jobIds: readonly string[]): void {
    tx.set(this.#keys.commandPage.key({ id, page }), encodeJobIds(jobIds));
  }

  #newId(): string {
    const { clock, random } = this.#parts.runtime;
    return this.#idAt(clock.nowMs(), randomHex(random));
  }

  #idAt(timeMs: number, suffix: string): string {
    const time = Math.max(0, Math.floor(timeMs)).toString(16).padStart(12, "0");
    return (time + suffix).slice(0, 32);
  }
}

/** Whether the error is a failure of the store, so that no other job could be changed either. */
function isOfStore(error: unknown): boolean {
  const code = errorCode(error) ?? "";
  return code.startsWith("KV_") && !code.endsWith("_TOO_LARGE");
}
