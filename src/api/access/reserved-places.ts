/**
 * Admission on connections reserved for server administrators. Their requests do not wait for other
 * requests; all other users get an OverloadedError. An administrator who uses cookies must log in
 * first, and the user of a login is not known in advance. The number of concurrent logins is
 * therefore limited, so that they cannot occupy all reserved connections.
 */
import { OverloadedError } from "../http/admission.ts";
import type { ApiRequest, User } from "../http/exchange.ts";

const LOGINS_MAX = 8;

export class ReservedPlaces {
  #loginCount = 0;

  /** Processes a request that arrived on a reserved connection. */
  async answer<T>(request: ApiRequest, user: User, work: () => Promise<T>): Promise<T> {
    if (user.isAdmin) return work();
    const isLogin = request.method === "POST" && request.path === "/_session";
    if (!isLogin || this.#loginCount >= LOGINS_MAX) throw new OverloadedError();
    this.#loginCount++;
    try {
      return await work();
    } finally {
      this.#loginCount--;
    }
  }
}
