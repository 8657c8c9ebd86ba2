/**
 * Files with tokens of this machine or workload (`[identities]`). Each identity names the servers
 * that may receive its token. A job refers to an identity by name and cannot choose a path or
 * another server, so that a server administrator cannot send the token to a server of their own.
 */
import type { SecretDestination } from "../../replicator/index.ts";

export interface Identity {
  readonly path: string;
  readonly servers: readonly IdentityServer[];
}

export interface IdentityServer {
  /** Scheme with a colon. */
  readonly protocol: string;
  readonly hostname: string;
  /** Port; empty for the default one. */
  readonly port: string;
  /** Whether the host name stands for all subdomains of the name, and not for the name itself. */
  readonly isWildcard: boolean;
}

/**
 * Returns the reason why the identity must not be sent to the destination, or `undefined` if it may
 * be sent.
 */
export function identityRefusal(
  { servers }: Identity,
  { url, isDirect }: SecretDestination,
): string | undefined {
  const { protocol, hostname, port, origin } = new URL(url);
  const isBound = servers.some(
    (server) =>
      server.protocol === protocol &&
      server.port === port &&
      (server.isWildcard ? hostname.endsWith(`.${server.hostname}`) : server.hostname === hostname),
  );
  if (!isBound)
    return `must not be sent to ${origin}: [identities] permits it for other servers only`;
  if (!isDirect) {
    const how =
      protocol === "https:"
        ? "without verifying its certificate"
        : "through a proxy, because the connection does not use TLS";
    return `is not sent to ${origin} ${how}`;
  }
  return undefined;
}
