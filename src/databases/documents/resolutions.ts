/**
 * The policy that resolves the conflicts of a database, and the log of its resolutions. This layer
 * stores them; the policy is JSON text that a higher layer interprets.
 *
 * One node at a time resolves the conflicts of a database, in a turn with a time limit. Turns only
 * save work: each resolution is correct without them, because the transaction that writes it also
 * reads the policy and the leaves of the document.
 */
import type { Clock, JsonText, Page } from "../../base/index.ts";
import type { Key, ReadTransaction, Transaction } from "../../kv/index.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import {
  decodePolicy,
  decodeResolution,
  decodeTurn,
  decodeUnresolved,
  encodePolicy,
  encodeResolution,
  encodeTurn,
  encodeUnresolved,
  type ResolutionRecord,
  type StoredPolicy,
  type Turn,
  type UnresolvedRecord,
} from "../records/resolution-record.ts";
import type { AssertExists } from "../transaction-state.ts";

/** Maximum number of resolutions in the log of a database. */
export const RESOLUTIONS_MAX = 10_000;
/** Time without progress after which another node takes over the pass. */
const TURN_MS = 60_000;
/** Interval between two passes, if the previous pass left conflicts unresolved. */
const PASS_MS = 60_000;

export interface Resolution extends ResolutionRecord {
  readonly number: number;
}

export interface ResolutionsParts {
  readonly keys: DatabaseKeys;
  readonly policyKey: Key;
  readonly assertExists: AssertExists;
}

export class Resolutions {
  readonly #clock: Clock;
  readonly #keys: DatabaseKeys;
  readonly #policyKey: Key;
  readonly #assertExists: AssertExists;

  constructor(clock: Clock, { keys, policyKey, assertExists }: ResolutionsParts) {
    this.#clock = clock;
    this.#keys = keys;
    this.#policyKey = policyKey;
    this.#assertExists = assertExists;
  }

  async policy(tx: ReadTransaction): Promise<StoredPolicy | undefined> {
    const value = await tx.get(this.#policyKey);
    return value && decodePolicy(value);
  }

  /**
   * Sets or removes the policy. Conflicts that the old policy left unresolved are examined again.
   */
  async setPolicy(tx: Transaction, text: JsonText | undefined): Promise<void> {
    await this.#assertExists(tx);
    tx.clearRange(this.#keys.unresolved.range());
    tx.clear(this.#keys.resolverTurn.key({}));
    if (text === undefined) tx.clear(this.#policyKey);
    else tx.set(this.#policyKey, encodePolicy({ text, sinceMs: this.#clock.nowMs() }));
  }

  /**
   * Begins or continues a pass through the conflicts. Returns the last document examined, or
   * undefined if another node is at work or no pass is due.
   */
  async takeTurn(tx: Transaction): Promise<string | undefined> {
    const value = await tx.get(this.#keys.resolverTurn.key({}));
    const turn = value && decodeTurn(value);
    // Absolute, because clocks of nodes differ: after a clock was set back, a negative difference
    // would delay the next pass.
    const elapsedMs = Math.abs(this.#clock.nowMs() - (turn?.seenMs ?? 0));
    if (turn !== undefined && elapsedMs < (turn.isComplete ? PASS_MS : TURN_MS)) return undefined;
    const afterId = turn?.isComplete === false ? turn.afterId : "";
    this.#setTurn(tx, { afterId, isComplete: false });
    return afterId;
  }

  /**
   * Records progress. Removes the row of the turn at the end of a pass that left no conflict
   * unresolved.
   */
  endTurn(tx: Transaction, turn: Omit<Turn, "seenMs">, { leftSome }: { leftSome: boolean }): void {
    if (turn.isComplete && !leftSome) tx.clear(this.#keys.resolverTurn.key({}));
    else this.#setTurn(tx, turn);
  }

  #setTurn(tx: Transaction, turn: Omit<Turn, "seenMs">): void {
    const seenMs = this.#clock.nowMs();
    tx.set(this.#keys.resolverTurn.key({}), encodeTurn({ ...turn, seenMs }));
  }

  async unresolved(
    tx: ReadTransaction,
    ids: readonly string[],
  ): Promise<(UnresolvedRecord | undefined)[]> {
    const values = await tx.getMany(ids.map((id) => this.#keys.unresolved.key({ id })));
    return values.map((value) => value && decodeUnresolved(value));
  }

  /**
   * Records why the policy left a conflict unresolved. The row is removed when the conflict ends.
   */
  setUnresolved(tx: Transaction, id: string, record: Omit<UnresolvedRecord, "timeMs">): void {
    const timeMs = this.#clock.nowMs();
    tx.set(this.#keys.unresolved.key({ id }), encodeUnresolved({ ...record, timeMs }));
  }

  /** Appends to the log, and removes the oldest entry if the log is full. */
  async append(tx: Transaction, resolution: Omit<ResolutionRecord, "timeMs">): Promise<void> {
    const [last] = (await this.page(tx, { limit: 1 })).entries;
    const number = (last?.number ?? 0) + 1;
    const record = encodeResolution({ ...resolution, timeMs: this.#clock.nowMs() });
    tx.set(this.#keys.resolution.key({ number }), record);
    if (number > RESOLUTIONS_MAX) {
      tx.clearRange(this.#keys.resolution.rangeBefore({ number: number - RESOLUTIONS_MAX + 1 }));
    }
  }

  /** Returns resolutions with numbers below `before`, newest first. */
  async page(
    tx: ReadTransaction,
    { before, limit }: { readonly before?: number | undefined; readonly limit: number },
  ): Promise<Page<Resolution>> {
    const range =
      before === undefined
        ? this.#keys.resolution.range()
        : this.#keys.resolution.rangeBefore({ number: before });
    const page = await tx.getRangePage(range, { limit, reverse: true });
    const entries = page.entries.map(({ key, value }) => {
      return { number: this.#keys.resolution.unpack(key).number, ...decodeResolution(value) };
    });
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** Removes from the log a resolution that has been undone. */
  forget(tx: Transaction, number: number): void {
    tx.clear(this.#keys.resolution.key({ number }));
  }
}
