/**
 * A bearer token that another process renews, such as a file with the identity of a workload. It is
 * read again at intervals, and after a 401.
 */
import type { Clock } from "../base/index.ts";
import type { GrantOutcome, GrantSource } from "./shared-grant.ts";

const REREAD_MS = 10_000;
/** Time for which the last token is used if no newer one can be read. */
const UNREADABLE_MS_MAX = 60_000;

export class ReferencedToken implements GrantSource {
  readonly #clock: Clock;
  readonly #read: () => string;

  /**
   * `read` returns the value of the `authorization` header. It throws if the token cannot be read.
   */
  constructor(clock: Clock, read: () => string) {
    this.#clock = clock;
    this.#read = read;
  }

  async obtain(): Promise<GrantOutcome> {
    const authorization = this.#read();
    const nowMs = this.#clock.monotonicMs();
    const times = { renewAtMs: nowMs + REREAD_MS, endsAtMs: nowMs + UNREADABLE_MS_MAX };
    return { kind: "granted", grant: { headers: { authorization }, ...times } };
  }
}
