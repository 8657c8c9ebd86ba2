/** Cluster-wide login gates in the store: all nodes together limit login attempts per account. */
import {
  abortable,
  type Clock,
  errorCode,
  type Runtime,
  randomHex,
  type Seal,
  utf8Decode,
  utf8Encode,
} from "../../base/index.ts";
import {
  admitLogin,
  type GateOpening,
  isIdle,
  LOGIN_RECORD_EMPTY,
  type Login,
  LoginGatedError,
  type LoginGates,
  type LoginRecord,
  type LoginVerdict,
  openGate,
  settleLogin,
} from "../../http-client/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { type Account, accountOf } from "../request/authentication-schemes.ts";
import type { EndpointAddress } from "../request/replication.ts";

/**
 * Maximum wait for a login: the pause after a rejected one, and the time for another that is in
 * progress.
 */
const WAIT_MS_MAX = 80_000;

export interface StoredLoginGatesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  /** Encrypts the password digests, if the server has a key. */
  readonly seal?: Seal | undefined;
}

export class StoredLoginGates implements LoginGates {
  readonly #parts: StoredLoginGatesParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: StoredLoginGatesParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  async enter(
    login: Login,
    signal: AbortSignal,
  ): Promise<(verdict: LoginVerdict) => Promise<void>> {
    const { runtime, kv } = this.#parts;
    const { clock } = runtime;
    const id = randomHex(runtime.random);
    const giveUpMs = clock.nowMs() + WAIT_MS_MAX;
    for (;;) {
      signal.throwIfAborted();
      const tried = await kv.transact(
        async (tx) => {
          const record = await this.#read(tx, login);
          const admission = admitLogin(record, { ...login, id }, clock.nowMs());
          if (admission.kind === "admitted") {
            this.#write(tx, login, admission.record);
            return undefined;
          }
          return { ...admission, changed: tx.watch(this.#key(login)) };
        },
        { whenUnknown: "retry" },
      );
      if (tried === undefined) return (verdict) => this.#settle(login, id, verdict);
      const { untilMs, isRefused, changed } = tried;
      try {
        if (isRefused || untilMs > giveUpMs) throw new LoginGatedError(login, untilMs, isRefused);
        await abortable(Promise.race([changed.fired(signal), until(clock, untilMs)]), signal);
      } finally {
        changed.cancel();
      }
    }
  }

  report(login: Login, verdict: LoginVerdict): Promise<void> {
    return this.#settle(login, "", verdict);
  }

  /**
   * Opens the gate for the next login. Called in the transaction that stores a user's new
   * credential.
   */
  async open(tx: Transaction, address: EndpointAddress, opening: GateOpening): Promise<void> {
    const account = address.kind === "http" ? accountOf(address) : undefined;
    if (account === undefined) return;
    const record = await this.#read(tx, account);
    if (record !== LOGIN_RECORD_EMPTY) this.#write(tx, account, openGate(record, opening));
  }

  #settle(login: Login, id: string, verdict: LoginVerdict): Promise<void> {
    const { runtime, kv } = this.#parts;
    return kv.transact(
      async (tx) => {
        const nowMs = runtime.clock.nowMs();
        const record = await this.#read(tx, login);
        this.#write(tx, login, settleLogin(record, { ...login, id, verdict }, nowMs));
      },
      // The transaction may be repeated: counting a failure twice only closes the gate for longer.
      { whenUnknown: "retry" },
    );
  }

  async #read(tx: ReadTransaction, account: Account): Promise<LoginRecord> {
    const stored = await tx.get(this.#key(account));
    if (stored === undefined) return LOGIN_RECORD_EMPTY;
    const { seal } = this.#parts;
    try {
      const bytes = seal === undefined ? stored : seal.open(stored, placeOf(account));
      return JSON.parse(utf8Decode(bytes)) as LoginRecord;
    } catch (error) {
      // The record was sealed with an earlier key. Login records are short-lived, so they are not
      // resealed.
      if (errorCode(error)?.startsWith("SECRETS_") === true) return LOGIN_RECORD_EMPTY;
      throw error;
    }
  }

  #write(tx: Transaction, account: Account, record: LoginRecord): void {
    const key = this.#key(account);
    if (isIdle(record, this.#parts.runtime.clock.nowMs())) {
      tx.clear(key);
      return;
    }
    const { seal } = this.#parts;
    const bytes = utf8Encode(JSON.stringify(record));
    tx.set(key, seal === undefined ? bytes : seal.seal(bytes, placeOf(account)));
  }

  #key(account: Account): Uint8Array {
    const name = utf8Encode(placeOf(account));
    return this.#keys.loginGate.key({ digest: this.#parts.runtime.digests.md5(name) });
  }
}

function placeOf({ origin, account }: Account): string {
  return JSON.stringify(["login", origin, account]);
}

async function until(clock: Clock, timeMs: number): Promise<void> {
  await clock.sleep(Math.max(0, timeMs - clock.nowMs()));
}
