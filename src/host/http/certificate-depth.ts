import type { DetailedPeerCertificate, PeerCertificate } from "node:tls";

/**
 * Number of intermediate certificates between a peer's own certificate and the root, counted as in
 * OpenSSL and Erlang.
 */
export function certificateDepth(certificate: PeerCertificate): number {
  let depth = -1;
  let current = certificate as DetailedPeerCertificate;
  // A root certificate is its own issuer; a missing issuer is undefined.
  while (current.issuerCertificate !== undefined && current.issuerCertificate !== current) {
    current = current.issuerCertificate;
    depth++;
  }
  return depth;
}
