/**
 * A grant of a server with a lifetime: a session's cookie or a token. All requests with the same credentials share one,
 * and one of them renews it before it ends.
 */
import { abortable, type Runtime } from "../base/index.ts";
import type { FetchResponse } from "./fetch.ts";

/** Times are the monotonic clock's. */
export interface Grant {
  /** Names in lower case; they go with each request. */
  readonly headers: Readonly<Record<string, string>>;
  /** When to ask for the next one; infinite for a grant that does not end. */
  readonly renewAtMs: number;
  /** Until then it may still be used when it cannot be renewed. */
  readonly endsAtMs: number;
}

/** `refused`: the credentials are wrong; status and text are the server's answer. */
export type GrantOutcome =
  | { readonly kind: "granted"; readonly grant: Grant }
  | { readonly kind: "refused"; readonly status: number; readonly text?: string };

/** Gets a grant. Rejects when the server does not answer, or says "later". */
export interface GrantSource {
  obtain(): Promise<GrantOutcome>;
  /** The grant that an answer to an ordinary request brings along, if any. */
  broughtBy?(response: FetchResponse): Grant | undefined;
}

/** Read at each use. */
export interface GrantSettings {
  /** `session_refresh_interval_sec`: when a cookie is renewed that does not say how long it lasts. */
  readonly sessionRenewalSec: number;
  /**
   * `session_min_update_interval`: a grant that is younger is not asked for again because of an answer 401 or 403, which is then about
   * the user, not the grant. It is also the pause after a renewal that failed.
   */
  readonly grantAgeSecMin: number;
}

export const GRANT_SETTINGS_DEFAULT: GrantSettings = { sessionRenewalSec: 550, grantAgeSecMin: 5 };

export class SharedGrant {
  readonly #clock: Runtime["clock"];
  readonly #source: GrantSource;
  readonly #settings: GrantSettings;
  #grant: Grant | undefined;
  #grantedAtMs = 0;
  #notBeforeMs = 0;
  #renewal: Promise<GrantOutcome> | undefined;

  constructor(
    { clock }: Pick<Runtime, "clock">,
    source: GrantSource,
    settings: GrantSettings = GRANT_SETTINGS_DEFAULT,
  ) {
    this.#clock = clock;
    this.#source = source;
    this.#settings = settings;
  }

  /** The grant to use now: the one that is there, or a new one. */
  async current(signal: AbortSignal): Promise<GrantOutcome> {
    const nowMs = this.#clock.monotonicMs();
    const grant = this.#grant;
    if (grant !== undefined && nowMs < Math.max(grant.renewAtMs, this.#notBeforeMs)) {
      return { kind: "granted", grant };
    }
    // The renewal serves all who wait for it, so none of them ends it.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    try {
      return await abortable(this.#renewal, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (grant === undefined || this.#clock.monotonicMs() >= grant.endsAtMs) throw error;
      this.#notBeforeMs = this.#clock.monotonicMs() + this.#ageMsMin;
      return { kind: "granted", grant };
    }
  }

  /** The server did not let `grant` in. True when it is worth to try again with another. */
  reject(grant: Grant): boolean {
    if (this.#grant !== grant) return true;
    const ageMs = this.#clock.monotonicMs() - this.#grantedAtMs;
    if (grant.renewAtMs === Number.POSITIVE_INFINITY || ageMs < this.#ageMsMin) {
      return false;
    }
    this.#grant = undefined;
    return true;
  }

  /** Takes over the grant that an answer brought along. */
  observe(response: FetchResponse): void {
    const grant = this.#source.broughtBy?.(response);
    if (grant !== undefined) this.#take(grant);
  }

  get #ageMsMin(): number {
    return this.#settings.grantAgeSecMin * 1000;
  }

  async #renew(): Promise<GrantOutcome> {
    const outcome = await this.#source.obtain();
    if (outcome.kind === "granted") this.#take(outcome.grant);
    return outcome;
  }

  #take(grant: Grant): void {
    this.#grant = grant;
    this.#grantedAtMs = this.#clock.monotonicMs();
  }
}

/** Grants that are kept; the longest unused goes first. */
const GRANTS_MAX = 1000;

/** The grants of a node, by what they were got with. */
export class Grants {
  readonly #grants = new Map<string, SharedGrant>();

  /** `key` names the server and the credentials: it is a secret, and never leaves this map. */
  of(key: string, make: () => SharedGrant): SharedGrant {
    const grant = this.#grants.get(key) ?? make();
    this.#grants.delete(key);
    this.#grants.set(key, grant);
    for (const [oldest] of this.#grants) {
      if (this.#grants.size <= GRANTS_MAX) break;
      this.#grants.delete(oldest);
    }
    return grant;
  }
}
