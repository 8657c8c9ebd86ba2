/** How long chains of certificates are. */
import type { DetailedPeerCertificate, PeerCertificate } from "node:tls";

/** The certificates between a peer's own and the last of its chain, as OpenSSL and Erlang count them. */
export function certificateDepth(certificate: PeerCertificate): number {
  let depth = -1;
  let current = certificate as DetailedPeerCertificate;
  // The last one is its own issuer, or its issuer did not come along.
  while (current.issuerCertificate !== undefined && current.issuerCertificate !== current) {
    current = current.issuerCertificate;
    depth++;
  }
  return depth;
}
