/**
 * `AuthSession` cookies: name and time in CouchDB's format, signed with a separate key per salt.
 */
import type { ApiRequest } from "../../api/index.ts";
import { type Clock, currentSec } from "../../base/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import { sameText } from "../passwords.ts";
import type { AuthenticationSettings } from "../settings/authentication-settings.ts";
import { deriveKey, signText } from "./derived-keys.ts";
import type { SessionSecrets } from "./session-secrets.ts";
import type { KnownUser } from "./user-directory.ts";

/** The parts of a request that show whether it came over TLS. */
type Arrival = Pick<ApiRequest, "isSecure" | "headers">;

export interface Session {
  readonly name: string;
  /** Time of issue in hex, as in the cookie. */
  readonly issued: string;
  /** Signature in base64. */
  readonly signature: string;
}

/** Fraction of a session's lifetime after which a response renews the session. */
const AGING_RATIO = 0.1;

const NO_SALT = "The user document has an empty salt: set the password again.";

export class SessionCookies {
  readonly #settings: AuthenticationSettings;
  readonly #clock: Clock;
  readonly #secrets: Pick<SessionSecrets, "current" | "accepted">;

  constructor(
    settings: AuthenticationSettings,
    clock: Clock,
    secrets: Pick<SessionSecrets, "current" | "accepted">,
  ) {
    this.#settings = settings;
    this.#clock = clock;
    this.#secrets = secrets;
  }

  /**
   * Returns a `Set-Cookie` header for an authenticated user. Throws a ProtocolError 403 for a user
   * without a salt.
   */
  issue({ name, salt }: KnownUser, arrival: Arrival): string {
    if (salt === "") throw new ProtocolError(403, "forbidden", NO_SALT);
    const issued = currentSec(this.#clock).toString(16).toUpperCase();
    const text = `${name}:${issued}`;
    const key = deriveKey(this.#secrets.current, "session cookie", salt);
    const signature = signText(this.#hashes[0] ?? "sha256", key, text);
    const value = Buffer.concat([Buffer.from(`${text}:`), signature]).toString("base64url");
    return this.#header(value, this.#settings.timeoutSec, arrival);
  }

  /** Returns a `Set-Cookie` header that ends the session. */
  cleared(arrival: Arrival): string {
    return this.#header("", 0, arrival);
  }

  /**
   * Parses a `Cookie` header. Returns `undefined` if it contains no session. Throws CouchDB's 400
   * for a malformed session.
   */
  read(header: string): Session | undefined {
    const value = /(?:^|;\s*)AuthSession="?([^;"]*)/.exec(header)?.[1];
    if (value === undefined || value === "") return undefined;
    const bytes = Buffer.from(value, "base64url");
    // The signature can contain any bytes, so the text before it is split off first.
    const second = bytes.indexOf(":", bytes.indexOf(":") + 1);
    const text = /^([^:]*):([0-9A-Fa-f]+)$/.exec(bytes.subarray(0, Math.max(0, second)).toString());
    if (text === null) {
      const reason = "Malformed AuthSession cookie. Please clear your cookies.";
      throw new ProtocolError(400, "bad_request", reason);
    }
    const signature = bytes.subarray(second + 1).toString("base64");
    return { name: text[1] ?? "", issued: text[2] ?? "", signature };
  }

  isValid(session: Session, { salt }: KnownUser): boolean {
    const { name, issued, signature } = session;
    if (salt === "") return false;
    if (this.#ageSec(session) >= this.#settings.timeoutSec) return false;
    const text = `${name}:${issued}`;
    return this.#secrets.accepted.some((secret) => {
      const key = deriveKey(secret, "session cookie", salt);
      return this.#hashes.some((hash) =>
        sameText(signText(hash, key, text).toString("base64"), signature),
      );
    });
  }

  isAging(session: Session): boolean {
    return this.#ageSec(session) > this.#settings.timeoutSec * AGING_RATIO;
  }

  get #hashes(): readonly string[] {
    return this.#settings.hashAlgorithms;
  }

  #ageSec({ issued }: Session): number {
    return this.#clock.nowMs() / 1000 - Number.parseInt(issued, 16);
  }

  /**
   * Whether the client used TLS. The client's TLS connection can end at this server or at a reverse
   * proxy, which reports the use of TLS in a header. A client that forges the header only makes its
   * own cookie useless.
   */
  #cameByTls({ isSecure, headers }: Arrival): boolean {
    const { forwardedTlsHeader, forwardedProtocolHeader } = this.#settings;
    const said = (name: string): string | undefined => headers.get(name.toLowerCase());
    return (
      isSecure || said(forwardedTlsHeader) === "on" || said(forwardedProtocolHeader) === "https"
    );
  }

  #header(value: string, ageSec: number, arrival: Arrival): string {
    const { allowsPersistentCookies, cookieDomain, sameSite } = this.#settings;
    // Some clients evaluate `Expires`, others `Max-Age`. The date has CouchDB's format, with
    // hyphens.
    const expires = new Date(this.#clock.nowMs() + ageSec * 1000).toUTCString();
    const dated = expires.replace(/(\d\d) (\w{3}) /, "$1-$2-");
    const isDated = allowsPersistentCookies || ageSec === 0;
    return [
      `AuthSession=${value}`,
      "Version=1",
      ...(isDated ? [`Expires=${dated}`, `Max-Age=${ageSec}`] : []),
      "Path=/",
      "HttpOnly",
      ...(this.#cameByTls(arrival) ? ["Secure"] : []),
      ...(cookieDomain === undefined ? [] : [`Domain=${cookieDomain}`]),
      ...(sameSite === undefined ? [] : [`SameSite=${sameSite}`]),
    ].join("; ");
  }
}
