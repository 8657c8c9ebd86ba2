/**
 * The gate of one account at one server. CouchDB locks an account for all clients at the node's IP
 * address after five wrong passwords in five minutes (`couch_auth_lockout`), even for the right
 * password. Therefore one gate limits the logins of all jobs:
 *
 *   - within five minutes, at most four logins of an account fail or are in progress;
 *   - after a rejection, one attempt passes every 75 s, and each further rejection of a password
 *     doubles the wait for that password;
 *   - a password whose last attempt was accepted passes immediately, unless the server has locked
 *     the account;
 *   - a credential that a user has just entered passes immediately.
 *
 * All functions here are pure. Times are wall time in milliseconds.
 */
import { backoff, OperationalError, smallest } from "../base/index.ts";

/** A login with a name and a password, or with a key at a token endpoint. */
export interface Login {
  readonly origin: string;
  readonly account: string;
  /** Digest of the secret, equal for equal secrets of the same account. */
  readonly credential: string;
}

/**
 * Outcome of a login. `locked`: the server temporarily rejects every password. `unknown`: the
 * response neither accepts nor rejects the credential.
 */
export type LoginVerdict = "accepted" | "refused" | "locked" | "unknown";

export interface LoginRecord {
  /** Times of failed logins, oldest first. */
  readonly failures: readonly number[];
  /** Logins in progress, each with its deadline. */
  readonly claims: readonly LoginClaim[];
  readonly refused: readonly RefusedCredential[];
  readonly accepted: readonly string[];
  /** Number of consecutive lockouts, and the time of the last one. */
  readonly lockout?: { readonly count: number; readonly atMs: number };
  /** Set when a user supplies a credential, and removed by the next attempt. */
  readonly opened?: GateOpening;
}

interface LoginClaim {
  readonly id: string;
  readonly untilMs: number;
  /** Whether the login was admitted because a user had just supplied a credential. */
  readonly isOpened?: boolean;
}

/** Credentials that pass immediately: those never tried, the given one, or all. */
export type GateOpening = "untried" | { readonly credential: string } | "any";

/** The response to a rejected login, without secrets. */
export interface LoginAnswer {
  readonly status: number;
  readonly text: string;
}

/** State of a gate at which a login has to wait. */
export interface ClosedGate {
  /** Whether the server rejected a password, or has temporarily locked the account. */
  readonly status: "refused" | "locked";
  /** Time of the next permitted attempt. */
  readonly untilMs: number;
  /** Whether the credential of this login was rejected. */
  readonly isRefused: boolean;
}

interface RefusedCredential {
  readonly credential: string;
  readonly count: number;
  readonly atMs: number;
  /**
   * Whether a credential supplied by a user was accepted after this one was rejected. If so, jobs
   * are no longer allowed to use the rejected credential.
   */
  readonly isReplaced?: boolean;
}

export const LOGIN_RECORD_EMPTY: LoginRecord = {
  failures: [],
  claims: [],
  refused: [],
  accepted: [],
};

/**
 * Maximum number of failures within the window. By default, CouchDB locks an account after five
 * failures (`threshold`) in 300 s (`max_lifetime`), so four failures never lock it.
 */
const FAILURES_MAX = 4;
/** Window in which failures count; slightly longer than CouchDB's, since clocks differ. */
const WINDOW_MS = 330_000;
/**
 * Number of failures after which even a credential that was never tried has to wait. The remaining
 * attempts are reserved for operators and for credentials whose wait is over.
 */
const UNTRIED_FAILURES_MAX = 2;
/**
 * Pauses after a rejection. With the shortest pause, at most four attempts fit into CouchDB's
 * window of 300 s.
 */
const PAUSE_MS = { min: 75_000, max: 3_600_000 };
/** Timeout after which a login counts as failed, because its process might have died. */
const CLAIM_MS = 60_000;
/**
 * Maximum number of credentials remembered per account. A forgotten credential is treated like a
 * new one.
 */
const CREDENTIALS_MAX = 32;
/** Age after which a rejection no longer counts. */
const REFUSED_MS_MAX = 86_400_000;

export type Admission =
  | { readonly kind: "admitted"; readonly record: LoginRecord }
  | {
      readonly kind: "closed";
      readonly untilMs: number;
      /** Whether the credential of this login was rejected before. */
      readonly isRefused: boolean;
    };

/**
 * Decides whether a login is allowed now. `id` identifies the attempt. Calling this again with the
 * same `id` is idempotent.
 */
export function admitLogin(
  stored: LoginRecord,
  { credential, id }: { readonly credential: string; readonly id: string },
  nowMs: number,
): Admission {
  const record = settled(stored, nowMs);
  const untilMs = nextAttemptMs(record, credential);
  if (untilMs > nowMs) return { kind: "closed", untilMs, isRefused: isRefused(record, credential) };
  const { opened, ...rest } = record;
  // Keep the opening if it was made for a different credential.
  const isKept = typeof opened === "object" && opened.credential !== credential;
  const kept = isKept ? record : rest;
  const others = record.claims.filter((claim) => claim.id !== id);
  const isOpened = opened !== undefined && !isKept;
  const claims = [...others, { id, untilMs: nowMs + CLAIM_MS, ...(isOpened ? { isOpened } : {}) }];
  return { kind: "admitted", record: { ...kept, claims } };
}

/** Returns the record after an attempt with this outcome. */
export function settleLogin(
  stored: LoginRecord,
  { credential, id, verdict }: { credential: string; id: string; verdict: LoginVerdict },
  nowMs: number,
): LoginRecord {
  const record = settled(stored, nowMs);
  const claims = record.claims.filter((claim) => claim.id !== id);
  const others = record.accepted.filter((one) => one !== credential);
  const refused = record.refused.filter((one) => one.credential !== credential);
  switch (verdict) {
    case "unknown":
      return { ...record, claims };
    case "accepted": {
      const { lockout: _, ...kept } = record;
      const accepted = [...others, credential].slice(-CREDENTIALS_MAX);
      const isOpened = record.claims.some((claim) => claim.id === id && claim.isOpened === true);
      const former = refused.map((one) => ({ ...one, isReplaced: true }));
      return { ...kept, claims, refused: isOpened ? former : refused, accepted };
    }
    case "refused": {
      const before = record.refused.find((one) => one.credential === credential);
      const again = { credential, count: (before?.count ?? 0) + 1, atMs: nowMs };
      return {
        ...record,
        claims,
        failures: withFailure(record.failures, nowMs),
        refused: [...refused, again].slice(-CREDENTIALS_MAX),
        accepted: others,
      };
    }
    case "locked":
      return {
        ...record,
        claims,
        lockout: { count: (record.lockout?.count ?? 0) + 1, atMs: nowMs },
      };
  }
}

/**
 * Returns the state of the gate if `credential` has to wait because the server rejected a login,
 * and `undefined` otherwise. Without a `credential`, returns the state if all rejected credentials
 * have to wait.
 */
export function closedGate(
  stored: LoginRecord,
  credential: string | undefined,
  nowMs: number,
): ClosedGate | undefined {
  const record = settled(stored, nowMs);
  const { refused, lockout } = record;
  if (credential === undefined && !hasRejection(record)) return undefined;
  if (refused.length === 0 && lockout === undefined) return undefined;
  const rejected = refused.filter(({ isReplaced }) => !isReplaced).map((one) => one.credential);
  const asked = credential === undefined ? rejected : [credential];
  // After a lockout no credential passes. If no credential was rejected, use the wait for a
  // credential that was never tried.
  const untilMs = smallest(
    (asked.length === 0 ? [""] : asked).map((one) => nextAttemptMs(record, one)),
  );
  if (untilMs <= nowMs) return undefined;
  return {
    status: lockout === undefined ? "refused" : "locked",
    untilMs,
    isRefused: credential === undefined || isRefused(record, credential),
  };
}

/**
 * Whether the server has locked the account, or has rejected a credential that was not replaced.
 */
export function hasRejection({ refused, lockout }: LoginRecord): boolean {
  return lockout !== undefined || refused.some(({ isReplaced }) => !isReplaced);
}

function isRefused({ refused }: LoginRecord, credential: string): boolean {
  return refused.some((one) => one.credential === credential);
}

/** Returns the record after a user has supplied a credential for the account. */
export function openGate(record: LoginRecord, opening: GateOpening): LoginRecord {
  const isWeaker = opening === "untried" && record.opened !== undefined;
  return isWeaker || record.opened === "any" ? record : { ...record, opened: opening };
}

/** Whether the record is equivalent to a missing one. */
export function isIdle(stored: LoginRecord, nowMs: number): boolean {
  const { failures, claims, refused, lockout } = settled(stored, nowMs);
  return failures.length + claims.length + refused.length === 0 && lockout === undefined;
}

/**
 * Returns the earliest time at which a login with this credential is permitted, according to the
 * record.
 */
function nextAttemptMs(record: LoginRecord, credential: string): number {
  const { failures, claims, refused, accepted, lockout, opened } = record;
  const own = refused.find((one) => one.credential === credential);
  const isNew = own === undefined && failures.length < UNTRIED_FAILURES_MAX;
  const isForced =
    opened === "any" || (typeof opened === "object" && opened.credential === credential);
  const isOpen = isForced || (opened === "untried" && isNew);
  if (failures.length + claims.length >= FAILURES_MAX) {
    const first = failures[0] ?? Number.POSITIVE_INFINITY;
    return smallest(
      claims.map(({ untilMs }) => untilMs),
      first + WINDOW_MS,
    );
  }
  if (lockout !== undefined && !isForced) return lockout.atMs + backoff(PAUSE_MS, lockout.count);
  if (accepted.includes(credential)) return 0;
  // Credentials that have not been accepted before are tried one at a time.
  if (claims.length > 0) return smallest(claims.map(({ untilMs }) => untilMs));
  if (isOpen) return 0;
  const last = failures.at(-1) ?? Number.NEGATIVE_INFINITY;
  return Math.max(
    last + PAUSE_MS.min,
    own === undefined ? 0 : own.atMs + backoff(PAUSE_MS, own.count),
  );
}

/** Removes expired entries from a record. Logins that never ended count as failed. */
function settled(record: LoginRecord, nowMs: number): LoginRecord {
  const claims = record.claims.filter(({ untilMs }) => untilMs > nowMs);
  const lost = record.claims.filter(({ untilMs }) => untilMs <= nowMs);
  const failures = [...record.failures, ...lost.map(({ untilMs }) => untilMs - CLAIM_MS)]
    .filter((atMs) => atMs > nowMs - WINDOW_MS)
    .toSorted((left, right) => left - right);
  const refused = record.refused.filter(({ atMs }) => atMs > nowMs - REFUSED_MS_MAX);
  return { ...record, claims, failures, refused };
}

function withFailure(failures: readonly number[], nowMs: number): readonly number[] {
  return [...failures, nowMs].slice(-FAILURES_MAX);
}

/** Records the outcome of a login, with the response if it was rejected. */
export type SettleLogin = (verdict: LoginVerdict, answer?: LoginAnswer) => Promise<void>;

/** Gates of all accounts. */
export interface LoginGates {
  /**
   * Waits until the login is allowed, and returns a function that must be called with the outcome
   * of the login. Rejects with a LoginGatedError if the credential was rejected or the wait would
   * be too long, and with `signal.reason`.
   */
  enter(login: Login, signal: AbortSignal): Promise<SettleLogin>;
  /** Records the verdict on a credential that was admitted because it had been accepted before. */
  report(login: Login, verdict: LoginVerdict, answer?: LoginAnswer): Promise<void>;
}

/** Thrown if a login was not attempted because the server might lock the account. */
export class LoginGatedError extends OperationalError {
  override readonly name = "LoginGatedError";
  declare readonly details: {
    readonly origin: string;
    readonly account: string;
    /** Time of the next permitted attempt. */
    readonly untilMs: number;
    readonly isRefused: boolean;
    /** Status and message of the last rejection; "" if unknown. */
    readonly words: string;
  };

  constructor({ origin, account }: Login, untilMs: number, isRefused: boolean, words = "") {
    const details = { origin, account, untilMs, isRefused, words };
    super("HTTP_LOGIN_GATED", "The login was not attempted", details);
  }
}
