/**
 * Secrets that verify sessions and proxy tokens. When `[chttpd_auth] secret` changes on a running
 * node, all nodes of the store accept the former and the new secret for `timeout` seconds
 * (`couch_secrets`). Sessions thus survive a change that reaches the nodes one after the other.
 */
import { isDeepStrictEqual } from "node:util";
import { Notifier, type Runtime, type Seal, waitAtMost } from "../../base/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import {
  readChangedSecrets,
  watchChangedSecrets,
  writeChangedSecrets,
} from "../secrets/changed-secrets.ts";
import type { AuthenticationSettings } from "../settings/authentication-settings.ts";
import type { Configuration } from "../settings/configuration.ts";

/** Maximum number of secrets in the stored record. If there are more, the newest ones are kept. */
const SECRET_COUNT_MAX = 8;
const SECRET_LENGTH_MAX = 4_096;

/** Interval between reads of the record if no watch fires. Each read also removes expired rows. */
const FOLLOW_INTERVAL_MS = 5_000;

/** The time at which each secret was last set, or last replaced by another one. */
type ChangeTimes = ReadonlyMap<string, number>;

export interface SessionSecretsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly seal: Seal;
  readonly configuration: Configuration;
  readonly settings: AuthenticationSettings;
  /** Secret that is used if the configuration sets none. All nodes of a store share it. */
  readonly storedSecret: string;
}

export class SessionSecrets {
  readonly name = "server.session-secrets";
  readonly #parts: SessionSecretsParts;
  readonly #changed = new Notifier();
  #current: string;
  /** Changes of any node, as last read from the store. */
  #shared: ChangeTimes = new Map();
  /** Changes of this node that are not in the store yet. */
  #unsaved: ChangeTimes = new Map();

  constructor(parts: SessionSecretsParts) {
    this.#parts = parts;
    this.#current = this.#configured();
    const { configuration } = parts;
    for (const section of ["chttpd_auth", "couch_httpd_auth"]) {
      configuration.watch(section, () => this.#settingsChanged());
    }
  }

  /** The secret that signs new sessions. */
  get current(): string {
    return this.#current;
  }

  /** The current secret, and other secrets that are still accepted after a change. */
  get accepted(): readonly string[] {
    const changed = this.#unexpired(merged(this.#shared, this.#unsaved));
    return [...new Set([this.#current, ...changed.keys()])];
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime, kv } = this.#parts;
    while (!signal.aborted) {
      const watch = await kv.transact(async (tx) => watchChangedSecrets(tx));
      try {
        await this.exchange();
        const woken = (over: AbortSignal) =>
          Promise.race([watch.fired(over), this.#changed.notified(over)]);
        await waitAtMost(runtime.clock, FOLLOW_INTERVAL_MS, signal, woken);
      } finally {
        watch.cancel();
      }
    }
  }

  /** Saves changes of this node, and reads the changes of other nodes. Removes expired rows. */
  async exchange(): Promise<void> {
    const { runtime, kv } = this.#parts;
    const unsaved = this.#unsaved;
    const shared = await kv.transact((tx) => this.#save(tx, unsaved), { whenUnknown: "retry" });
    const isChanged = !isDeepStrictEqual(shared, this.#shared);
    this.#shared = shared;
    if (this.#unsaved === unsaved) this.#unsaved = new Map();
    const acceptedCount = this.accepted.length;
    if (isChanged) runtime.trace.event("sessions.secrets-changed", { acceptedCount });
  }

  async #save(tx: Transaction, unsaved: ChangeTimes): Promise<ChangeTimes> {
    const { seal } = this.#parts;
    const stored = await readChangedSecrets(tx, seal);
    const kept = this.#unexpired(merged(stored, unsaved));
    if (unsaved.size > 0 || kept.size < stored.size) writeChangedSecrets(tx, seal, kept);
    return kept;
  }

  #settingsChanged(): void {
    const former = this.#current;
    this.#current = this.#configured();
    if (this.#current !== former) {
      const nowMs = this.#parts.runtime.clock.nowMs();
      const change = new Map([former, this.#current].map((secret) => [secret, nowMs]));
      this.#unsaved = merged(this.#unsaved, change);
    }
    this.#changed.notify();
  }

  #configured(): string {
    return this.#parts.settings.secret ?? this.#parts.storedSecret;
  }

  #unexpired(changes: ChangeTimes): ChangeTimes {
    const { settings, runtime } = this.#parts;
    if (!settings.acceptsFormerSecrets) return new Map();
    const sinceMs = runtime.clock.nowMs() - settings.timeoutSec * 1000;
    const rows = [...changes]
      .filter(([secret, atMs]) => atMs > sinceMs && secret.length <= SECRET_LENGTH_MAX)
      .sort(([, left], [, right]) => right - left);
    return new Map(rows.slice(0, SECRET_COUNT_MAX));
  }
}

function merged(left: ChangeTimes, right: ChangeTimes): ChangeTimes {
  const result = new Map(left);
  for (const [secret, atMs] of right) {
    result.set(secret, Math.max(atMs, result.get(secret) ?? 0));
  }
  return result;
}
