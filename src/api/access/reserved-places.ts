/**
 * Requests on connections reserved for server administrators. They are answered without waiting for
 * others; anyone else gets an OverloadedError. An administrator who uses cookies logs in here
 * first, and a login does not reveal its user in advance: some of the places are for logins, so
 * that the rest stays free.
 */
import { OverloadedError } from "../http/admission.ts";
import type { ApiRequest, User } from "../http/exchange.ts";

const LOGINS_MAX = 8;

export class ReservedPlaces {
  #loginCount = 0;

  /** Processes a request on a reserved connection. */
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
