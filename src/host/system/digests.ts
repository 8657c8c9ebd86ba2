import { createHash, hash } from "node:crypto";
import type { Digests } from "../../base/index.ts";

export const systemDigests: Digests = {
  md5: (bytes) => new Uint8Array(hash("md5", bytes, "buffer")),
  md5Hex: (bytes) => hash("md5", bytes, "hex"),
  createMd5() {
    const stream = createHash("md5");
    return {
      update(bytes) {
        stream.update(bytes);
      },
      digest: () => new Uint8Array(stream.digest()),
    };
  },
  sha1Hex: (bytes) => hash("sha1", bytes, "hex"),
};
