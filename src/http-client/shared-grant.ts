/**
 * A grant with a lifetime: a session cookie or a token. All requests with the same credentials
 * share one grant, and one of them renews it in time.
 */
import { abortable, type Runtime } from "../base/index.ts";
import { type FetchResponse, RequestFailedError } from "./fetch.ts";
import { SecretsInUse } from "./secrets-in-use.ts";

/** Headers obtained by a login. Times are in milliseconds of the monotonic clock. */
export interface Grant {
  /** Headers sent with each request; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Time at which the grant is to be renewed; infinite for a grant that does not expire. */
  readonly renewAtMs: number;
  /** Time until which the grant is used if renewal fails. */
  readonly endsAtMs: number;
}

/**
 * Outcome of a login. `refused`: the credentials are wrong; `status` and `text` are those of the
 * response.
 */
export type GrantOutcome =
  | { readonly kind: "granted"; readonly grant: Grant }
  | { readonly kind: "refused"; readonly status: number; readonly text?: string };

/** Returns the error for a response that neither grants nor refuses a login with this secret. */
export function loginFailed({
  url,
  status,
  text,
  secret,
}: {
  readonly url: string;
  readonly status: number;
  readonly text: string;
  readonly secret: string;
}): RequestFailedError {
  const secrets = new SecretsInUse();
  secrets.add(secret);
  const cause = `HTTP_${status}`;
  return new RequestFailedError({ method: "POST", url, cause, text: secrets.redact(text) });
}

/** Source of grants. `obtain` rejects if the server does not respond or asks to retry later. */
export interface GrantSource {
  obtain(): Promise<GrantOutcome>;
  /**
   * Returns the pause after this number of consecutive failures. During the pause, requests without
   * a valid grant fail with the same error. A source without this function has no such pause.
   */
  pauseMs?(failureCount: number): number;
  /** The grant contained in the response to an ordinary request, if any. */
  broughtBy?(response: FetchResponse): Grant | undefined;
}

/** Settings, read on each use, so changes take effect immediately. */
export interface GrantSettings {
  /** `session_refresh_interval_sec`: renewal interval of a cookie without a lifetime. */
  readonly sessionRenewalSec: number;
  /**
   * `session_min_update_interval`: minimum age of a grant at which a 401 or 403 causes its renewal.
   * For a younger grant, the response is assumed to concern the user's rights. Also the pause after
   * a failed renewal.
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
  #failureCount = 0;
  /** Error of the last renewal, during the pause after it. */
  #failure: RequestFailedError | undefined;
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

  /** Returns the grant to use now, obtaining one if needed. */
  async current(signal: AbortSignal): Promise<GrantOutcome> {
    const nowMs = this.#clock.monotonicMs();
    const grant = this.#grant;
    const isPaused = nowMs < this.#notBeforeMs;
    if (grant !== undefined && nowMs < (isPaused ? grant.endsAtMs : grant.renewAtMs)) {
      return { kind: "granted", grant };
    }
    if (isPaused && this.#failure !== undefined) throw this.#failure;
    // The renewal serves all waiting requests, so none of them is allowed to cancel it.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    const usable = () =>
      grant !== undefined && this.#clock.monotonicMs() < grant.endsAtMs ? grant : undefined;
    try {
      const outcome = await abortable(this.#renewal, signal);
      const kept = outcome.kind === "refused" && this.#pauses ? usable() : undefined;
      return kept === undefined ? outcome : { kind: "granted", grant: kept };
    } catch (error) {
      signal.throwIfAborted();
      const kept = usable();
      if (kept === undefined) throw error;
      return { kind: "granted", grant: kept };
    }
  }

  /**
   * Reports that the server rejected `grant`. Returns whether a retry with a different grant makes
   * sense.
   */
  reject(grant: Grant): boolean {
    if (this.#grant !== grant) return true;
    const ageMs = this.#clock.monotonicMs() - this.#grantedAtMs;
    if (grant.renewAtMs === Number.POSITIVE_INFINITY || ageMs < this.#ageMsMin) {
      return false;
    }
    this.#grant = undefined;
    return true;
  }

  /** Adopts the grant contained in a response. */
  observe(response: FetchResponse): void {
    const grant = this.#source.broughtBy?.(response);
    if (grant !== undefined) this.#take(grant);
  }

  get #pauses(): boolean {
    return this.#source.pauseMs !== undefined;
  }

  get #ageMsMin(): number {
    return this.#settings.grantAgeSecMin * 1000;
  }

  async #renew(): Promise<GrantOutcome> {
    try {
      const outcome = await this.#source.obtain();
      if (outcome.kind === "granted") this.#take(outcome.grant);
      else this.#pauseAfter(undefined);
      return outcome;
    } catch (error) {
      this.#pauseAfter(error);
      throw error;
    }
  }

  #pauseAfter(error: unknown): void {
    const pauseMs = this.#source.pauseMs?.(++this.#failureCount);
    this.#failure =
      pauseMs !== undefined && error instanceof RequestFailedError ? error : undefined;
    this.#notBeforeMs = this.#clock.monotonicMs() + Math.max(pauseMs ?? 0, this.#ageMsMin);
  }

  #take(grant: Grant): void {
    this.#grant = grant;
    this.#grantedAtMs = this.#clock.monotonicMs();
    this.#failureCount = 0;
    this.#failure = undefined;
    this.#notBeforeMs = 0;
  }
}

/** Maximum number of grants kept; the least recently used is evicted. */
const GRANTS_MAX = 1000;

/** The grants of a node, by server and credentials. */
export class Grants {
  readonly #grants = new Map<string, SharedGrant>();

  /**
   * Returns the grant for `key`, which identifies server and credentials. The key is a secret and
   * never leaves this map.
   */
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
