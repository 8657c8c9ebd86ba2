/** Digests by Node.js. */
import { createHash } from "node:crypto";
import type { Digests } from "../base/index.ts";

export const systemDigests: Digests = {
  md5: (bytes) => new Uint8Array(createHash("md5").update(bytes).digest()),
  createMd5() {
    const hash = createHash("md5");
    return {
      update(bytes) {
        hash.update(bytes);
      },
      digest: () => new Uint8Array(hash.digest()),
    };
  },
};
