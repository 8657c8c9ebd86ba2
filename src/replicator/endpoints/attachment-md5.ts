/** Computes the digest of an attachment without keeping its bytes. */
import { hexEncode, type Runtime, Turns } from "../../base/index.ts";

/** As lower-case hex digits. */
export async function attachmentMd5(
  { clock, digests }: Pick<Runtime, "clock" | "digests">,
  chunks: AsyncIterable<Uint8Array>,
): Promise<string> {
  const turns = new Turns(clock);
  const md5 = digests.createMd5();
  for await (const chunk of chunks) {
    md5.update(chunk);
    if (turns.areDue) await turns.give();
  }
  return hexEncode(md5.digest());
}
