/**
 * Requests on connections that are reserved for server administrators. They are answered without waiting for others;
 * anyone else gets an OverloadedError. An administrator who uses cookies logs in here first, and the login does not
 * tell beforehand whose it is: a part of the places is for logins, so that the rest stays free.
 */
import { OverloadedError } from "../http/admission.ts";
import type { ApiRequest, User } from "../http/exchange.ts";

const LOGINS_MAX = 8;

export class ReservedPlaces {
  #loginCount = 0;

  /** Does the work of a request on a reserved connection. */
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
