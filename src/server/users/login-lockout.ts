/**
 * Temporarily rejects logins after too many wrong passwords (`couch_auth_lockout`,
 * `[chttpd_auth_lockout]`). Failures are counted for each user at each client address, so guessing
 * does not lock out the user at other addresses. The password's salt is part of the key of a count,
 * so a new password, which has a new salt, starts a new count. A count expires a fixed time after
 * its first failure. Each node counts separately.
 */
import { createHash } from "node:crypto";
import type { Clock, Trace } from "../../base/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { LockoutSettings } from "../settings/lockout-settings.ts";

/** A login attempt: the user's name, the salt of the password, and the client. */
export interface LoginAttempt {
  readonly name: string;
  readonly salt: string;
  /** The address of the client. */
  readonly peer: string;
}

interface Failures {
  readonly endsAtMs: number;
  count: number;
}

export class LoginLockout {
  readonly #settings: LockoutSettings;
  readonly #clock: Clock;
  readonly #trace: Trace;
  /** Counts of failures, ordered by the time of their first failure. */
  readonly #failures = new Map<string, Failures>();

  constructor(
    settings: LockoutSettings,
    { clock, trace }: { readonly clock: Clock; readonly trace: Trace },
  ) {
    this.#settings = settings;
    this.#clock = clock;
    this.#trace = trace;
  }

  /** Called before the password is checked. Throws CouchDB's 403 after too many failures. */
  check({ name, salt, peer }: LoginAttempt): void {
    const { mode, threshold } = this.#settings;
    if (mode === "off") return;
    const failures = this.#current(keyOf({ name, salt, peer }));
    if (failures === undefined || failures.count < threshold) return;
    this.#trace.event("users.login-refused", { name, peer, mode });
    if (mode === "enforce") throw new ProtocolError(403, "forbidden", LOCKED);
  }

  failed(attempt: LoginAttempt): void {
    const { mode, countedMax, lifetimeMs } = this.#settings;
    if (mode === "off") return;
    const key = keyOf(attempt);
    const failures = this.#current(key);
    if (failures !== undefined) {
      failures.count++;
      return;
    }
    const [oldest] = this.#failures.keys();
    if (this.#failures.size >= countedMax && oldest !== undefined) this.#failures.delete(oldest);
    this.#failures.set(key, { count: 1, endsAtMs: this.#clock.monotonicMs() + lifetimeMs });
  }

  #current(key: string): Failures | undefined {
    const failures = this.#failures.get(key);
    if (failures === undefined || failures.endsAtMs > this.#clock.monotonicMs()) return failures;
    this.#failures.delete(key);
    return undefined;
  }
}

const LOCKED = "Account is temporarily locked due to multiple authentication failures";

/** Returns a key of fixed length, however long the name is that a client sends. */
function keyOf({ name, salt, peer }: LoginAttempt): string {
  return createHash("sha256")
    .update(JSON.stringify([peer, name, salt]))
    .digest("base64");
}
