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
  type ClosedGate,
  closedGate,
  credentialOf,
  hasRejection,
  isIdle,
  LOGIN_RECORD_EMPTY,
  type Login,
  type LoginAnswer,
  LoginGatedError,
  type LoginGates,
  type LoginRecord,
  type LoginVerdict,
  openGate,
  SecretsInUse,
  type SettleLogin,
  settleLogin,
} from "../../http-client/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { ServerWords } from "../endpoints/http/server-words.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { type Account, accountOf, secretsOf } from "../request/authentication-schemes.ts";
import type { EndpointAddress, HttpAddress } from "../request/replication.ts";

/**
 * Maximum wait for a login. Exceeds the first pause after a rejected login, and the time limit of a
 * login in progress.
 */
const WAIT_MS_MAX = 80_000;

/** Maximum number of accounts listed and counted. */
export const GATES_MAX = 1_000;

/** An account whose logins at a server have to wait. */
export interface GatedAccount extends Account, ClosedGate {
  /** Time of the first rejection. */
  readonly sinceMs: number;
  /** Status and error text of the last rejection. */
  readonly words: string;
}

type Described = Pick<GatedAccount, "origin" | "account" | "sinceMs" | "words">;

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

  async enter(login: Login, signal: AbortSignal): Promise<SettleLogin> {
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
      if (tried === undefined) {
        return (verdict, answer) => this.#settle(login, { id, verdict, answer });
      }
      const { untilMs, isRefused, changed } = tried;
      try {
        if (isRefused || untilMs > giveUpMs) {
          runtime.trace.event("replication.login-gated", { origin: login.origin });
          const described = await kv.read((tx) => this.#describe(tx, this.#digest(login)));
          throw new LoginGatedError(login, untilMs, isRefused, isRefused ? described?.words : "");
        }
        await abortable(Promise.race([changed.fired(signal), until(clock, untilMs)]), signal);
      } finally {
        changed.cancel();
      }
    }
  }

  report(login: Login, verdict: LoginVerdict, answer?: LoginAnswer): Promise<void> {
    return this.#settle(login, { id: "", verdict, answer });
  }

  /**
   * Opens the gate for a credential that a user has supplied. Called in the transaction that stores
   * the credential. With `isForced`, the gate opens even if the server has just rejected this or
   * another credential.
   */
  async open(tx: Transaction, address: EndpointAddress, isForced: boolean): Promise<void> {
    const account = address.kind === "http" ? accountOf(address) : undefined;
    if (account === undefined) return;
    const record = await this.#read(tx, account);
    if (record === LOGIN_RECORD_EMPTY) return;
    const credential = this.#credentialOf(address as HttpAddress, account);
    const opening = credential === undefined ? "any" : { credential };
    this.#write(tx, account, openGate(record, isForced ? opening : "untried"));
  }

  /** Returns the gate at which the next login of this address has to wait, if any. */
  async closed(tx: ReadTransaction, address: HttpAddress): Promise<GatedAccount | undefined> {
    const account = accountOf(address);
    if (account === undefined) return undefined;
    const record = await this.#read(tx, account);
    const credential = this.#credentialOf(address, account);
    const gate = closedGate(record, credential, this.#parts.runtime.clock.nowMs());
    if (gate === undefined) return undefined;
    // Records of older versions have no description.
    const described = await this.#describe(tx, this.#digest(account));
    const { sinceMs, words } = described ?? { sinceMs: record.refused[0]?.atMs ?? 0, words: "" };
    return { ...account, ...gate, sinceMs, words };
  }

  /** Returns the accounts whose logins have to wait, ordered by the time of the next attempt. */
  async list(tx: ReadTransaction): Promise<readonly GatedAccount[]> {
    const nowMs = this.#parts.runtime.clock.nowMs();
    const { entries } = await tx.getRangePage(this.#keys.gatedAccount.range(), {
      limit: GATES_MAX,
    });
    const accounts = await Promise.all(
      entries.map(async ({ key }) => {
        const described = await this.#describe(tx, this.#keys.gatedAccount.unpack(key).digest);
        if (described === undefined) return [];
        const gate = closedGate(await this.#read(tx, described), undefined, nowMs);
        return gate === undefined ? [] : [{ ...described, ...gate }];
      }),
    );
    return accounts.flat().toSorted((left, right) => left.untilMs - right.untilMs);
  }

  /** Removes the descriptions of accounts without recent rejections. */
  forgetIdle(): Promise<void> {
    const { kv, runtime } = this.#parts;
    return kv.transact(
      async (tx) => {
        const range = this.#keys.gatedAccount.range();
        for (const { key } of (await tx.getRangePage(range, { limit: GATES_MAX })).entries) {
          const described = await this.#describe(tx, this.#keys.gatedAccount.unpack(key).digest);
          const record = described && (await this.#read(tx, described));
          if (record === undefined || isIdle(record, runtime.clock.nowMs())) tx.clear(key);
        }
      },
      { whenUnknown: "retry" },
    );
  }

  #settle(
    login: Login,
    { id, verdict, answer }: { id: string; verdict: LoginVerdict; answer: LoginAnswer | undefined },
  ): Promise<void> {
    const { runtime, kv } = this.#parts;
    runtime.trace.event("replication.login", { origin: login.origin, verdict });
    return kv.transact(
      async (tx) => {
        const nowMs = runtime.clock.nowMs();
        const record = await this.#read(tx, login);
        this.#write(tx, login, settleLogin(record, { ...login, id, verdict }, nowMs));
        if (answer === undefined || (verdict !== "refused" && verdict !== "locked")) return;
        const digest = this.#digest(login);
        const before = hasRejection(record) ? await this.#describe(tx, digest) : undefined;
        const { origin, account } = login;
        const words = WORDS.described(answer.status, answer.text);
        const described = { origin, account, sinceMs: before?.sinceMs ?? nowMs, words };
        tx.set(
          this.#keys.gatedAccount.key({ digest }),
          this.#sealed(described, placeOfText(digest)),
        );
      },
      // The transaction can be repeated: counting a failure twice only closes the gate for longer.
      { whenUnknown: "retry" },
    );
  }

  async #describe(tx: ReadTransaction, digest: Uint8Array): Promise<Described | undefined> {
    const stored = await tx.get(this.#keys.gatedAccount.key({ digest }));
    return this.#opened<Described>(stored, placeOfText(digest));
  }

  async #read(tx: ReadTransaction, account: Account): Promise<LoginRecord> {
    const stored = await tx.get(this.#key(account));
    return this.#opened<LoginRecord>(stored, placeOf(account)) ?? LOGIN_RECORD_EMPTY;
  }

  /**
   * Decodes a stored record. Returns undefined if it is missing, or if it was sealed with an
   * earlier key.
   */
  #opened<T>(stored: Uint8Array | undefined, place: string): T | undefined {
    if (stored === undefined) return undefined;
    const { seal } = this.#parts;
    try {
      return JSON.parse(utf8Decode(seal === undefined ? stored : seal.open(stored, place))) as T;
    } catch (error) {
      // A record sealed with an earlier key is ignored. Login records are not resealed, because
      // they are short-lived.
      if (errorCode(error)?.startsWith("SECRETS_") === true) return undefined;
      throw error;
    }
  }

  #sealed(value: unknown, place: string): Uint8Array {
    const { seal } = this.#parts;
    const bytes = utf8Encode(JSON.stringify(value));
    return seal === undefined ? bytes : seal.seal(bytes, place);
  }

  #write(tx: Transaction, account: Account, record: LoginRecord): void {
    const digest = this.#digest(account);
    if (!hasRejection(record)) tx.clear(this.#keys.gatedAccount.key({ digest }));
    const key = this.#keys.loginGate.key({ digest });
    if (isIdle(record, this.#parts.runtime.clock.nowMs())) tx.clear(key);
    else tx.set(key, this.#sealed(record, placeOf(account)));
  }

  /** Returns the digest of the address's secret; undefined for a reference. */
  #credentialOf(address: HttpAddress, { account }: Account): string | undefined {
    const [secret] = secretsOf(address);
    if (secret === undefined || (address.references?.length ?? 0) > 0) return undefined;
    return credentialOf(this.#parts.runtime.digests, account, secret[1]);
  }

  #key(account: Account): Uint8Array {
    return this.#keys.loginGate.key({ digest: this.#digest(account) });
  }

  #digest(account: Account): Uint8Array {
    return this.#parts.runtime.digests.md5(utf8Encode(placeOf(account)));
  }
}

/** Formats responses, from which secrets have already been removed. */
const WORDS = new ServerWords(new SecretsInUse());

function placeOf({ origin, account }: Account): string {
  return JSON.stringify(["login", origin, account]);
}

function placeOfText(digest: Uint8Array): string {
  return JSON.stringify(["gated", ...digest]);
}

async function until(clock: Clock, timeMs: number): Promise<void> {
  await clock.sleep(Math.max(0, timeMs - clock.nowMs()));
}
