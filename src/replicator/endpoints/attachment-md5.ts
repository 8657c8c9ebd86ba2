/** Computes the digest of an attachment without keeping its bytes. */
import { hexEncode, type Runtime, Yielder } from "../../base/index.ts";

/** Returns the MD5 of the chunks as lower-case hex digits. */
export async function attachmentMd5(
  { clock, digests }: Pick<Runtime, "clock" | "digests">,
  chunks: AsyncIterable<Uint8Array>,
): Promise<string> {
  const yielder = new Yielder(clock);
  const md5 = digests.createMd5();
  for await (const chunk of chunks) {
    md5.update(chunk);
    if (yielder.isDue) await yielder.yield();
  }
  return hexEncode(md5.digest());
}
