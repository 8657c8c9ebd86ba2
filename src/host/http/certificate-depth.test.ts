import type { PeerCertificate } from "node:tls";
import { expect, test } from "vitest";
import { certificateDepth } from "./certificate-depth.ts";

/**
 * A certificate with `othersCount` issuers, the last of which is self-signed, in the form that
 * `getPeerCertificate` returns.
 */
function chain(othersCount: number, issuerCertificate?: object): PeerCertificate {
  const own: Record<string, unknown> = {};
  let current = own;
  for (let count = 0; count < othersCount; count++) {
    const issuer = {};
    current.issuerCertificate = issuer;
    current = issuer;
  }
  current.issuerCertificate = issuerCertificate ?? current;
  return own as unknown as PeerCertificate;
}

test("the depth is the number of certificates between the peer's own certificate and the last one", () => {
  expect([1, 2, 3].map((othersCount) => certificateDepth(chain(othersCount)))).toEqual([0, 1, 2]);
});
