/** Stores waiting alerts, ongoing breaches, and the lease of the node that sends alerts. */
import { assert, hexDecode } from "../../base/index.ts";
import {
  type Key,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type Watch,
} from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import {
  type Alert,
  type AlertState,
  type Breach,
  type BreachKind,
  decodeAlert,
  decodeAlertState,
  decodeBreach,
  encodeAlert,
  encodeAlertState,
  encodeBreach,
  NO_ALERT_STATE,
} from "./alert.ts";

/** Lease of the node that derives and sends alerts for the cluster. */
export interface AlertTurn {
  /** Id of the node that holds the lease, if any. */
  readonly holder: string | undefined;
  /** End of the lease, unless it is extended (ms since the epoch). */
  readonly untilMs: number;
  /** Id of the last job event processed, if any. */
  readonly cursor: string | undefined;
}

export interface WaitingAlert {
  readonly key: Key;
  readonly alert: Alert;
}

/** Number of bytes of a test alert's id that distinguish its key from those of other tests. */
const TEST_BYTES = 4;
/** Format version of the lease, stored as the first element. */
const FORMAT = 1;
const NOBODY: AlertTurn = { holder: undefined, untilMs: 0, cursor: undefined };

export class AlertStore {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = replicatorKeys(subspace);
  }

  async turn(tx: ReadTransaction): Promise<AlertTurn> {
    const value = await tx.get(this.#keys.alertTurn.key({}));
    if (value === undefined) return NOBODY;
    const [format, holder, untilMs, cursor] = unpackTuple(value);
    assert(format === FORMAT, "A lease must have a supported format version");
    return {
      holder: typeof holder === "string" ? holder : undefined,
      untilMs: Number(untilMs),
      cursor: typeof cursor === "string" ? cursor : undefined,
    };
  }

  setTurn(tx: Transaction, { holder, untilMs, cursor }: AlertTurn): void {
    const value = packTuple([FORMAT, holder ?? null, Math.floor(untilMs), cursor ?? null]);
    tx.set(this.#keys.alertTurn.key({}), value);
  }

  /**
   * Returns the breaches of the jobs or rules `jobIds`, in the same order; undefined for a job or
   * rule without a breach of this kind.
   */
  async breaches(
    tx: ReadTransaction,
    kind: BreachKind,
    jobIds: readonly string[],
  ): Promise<readonly (Breach | undefined)[]> {
    const values = await tx.getMany(jobIds.map((jobId) => this.#keys.breach.key({ kind, jobId })));
    return values.map((value) => value && decodeBreach(value));
  }

  /** Returns a page of the ids of jobs with a breach of this kind, starting after `afterId`. */
  async breachedJobs(
    tx: ReadTransaction,
    kind: BreachKind,
    afterId: string | undefined,
    limit: number,
  ): Promise<readonly string[]> {
    const { begin, end } = this.#keys.breach.range({ kind });
    const from =
      afterId === undefined ? begin : keyAfter(this.#keys.breach.key({ kind, jobId: afterId }));
    const { entries } = await tx.getRangePage({ begin: from, end }, { limit });
    return entries.map(({ key }) => this.#keys.breach.unpack(key).jobId);
  }

  setBreach(tx: Transaction, kind: BreachKind, jobId: string, breach: Breach): void {
    tx.set(this.#keys.breach.key({ kind, jobId }), encodeBreach(breach));
  }

  clearBreach(tx: Transaction, kind: BreachKind, jobId: string): void {
    tx.clear(this.#keys.breach.key({ kind, jobId }));
  }

  append(tx: Transaction, alert: Alert): void {
    tx.setVersionstampedKey(this.#keys.alert.newKey({}, tx.nextUserVersion()), encodeAlert(alert));
  }

  /**
   * Adds a test alert before all other alerts, however many wait. Its key has the version 0, which
   * no commit has. Returns the key.
   */
  appendTest(tx: Transaction, alert: Alert): Key {
    const bytes = new Uint8Array(VERSIONSTAMP_BYTES);
    bytes.set(hexDecode(alert.id)?.subarray(0, TEST_BYTES) ?? [], VERSIONSTAMP_BYTES - TEST_BYTES);
    const key = this.#keys.alert.key({ versionstamp: Versionstamp.fromBytes(bytes) });
    tx.set(key, encodeAlert(alert));
    return key;
  }

  /** Returns the alerts waiting to be sent: first tests, then the oldest. */
  async waiting(tx: ReadTransaction, limit: number): Promise<readonly WaitingAlert[]> {
    const { entries } = await tx.snapshot.getRangePage(this.#keys.alert.range(), { limit });
    return entries.map(({ key, value }) => ({ key, alert: decodeAlert(value) }));
  }

  remove(tx: Transaction, alerts: readonly WaitingAlert[]): void {
    for (const { key } of alerts) tx.clear(key);
  }

  async state(tx: ReadTransaction): Promise<AlertState> {
    const value = await tx.get(this.#keys.alertState.key({}));
    return value === undefined ? NO_ALERT_STATE : decodeAlertState(value);
  }

  setState(tx: Transaction, state: AlertState): void {
    tx.set(this.#keys.alertState.key({}), encodeAlertState(state));
  }

  /** Returns a watch that fires when the state of deliveries changes. */
  watchState(tx: Transaction): Watch {
    return tx.watch(this.#keys.alertState.key({}));
  }
}
