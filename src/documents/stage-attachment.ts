/** The bytes of an attachment on their way into the store, before the document that refers to them. */
import type { AttachmentEdit, AttachmentStore, Database } from "../databases/index.ts";

/** The default type of an attachment. */
export const CONTENT_TYPE_DEFAULT = "application/octet-stream";

/** An attachment whose bytes come, as its sender describes it. What is not said is not checked. */
export interface IncomingAttachment {
  readonly name: string;
  readonly contentType?: string | undefined;
  readonly revisionPosition?: number | undefined;
  /** Of the bytes as they come. */
  readonly digest?: string | undefined;
  /** In bytes, as they come. */
  readonly length?: number | undefined;
  /** The bytes come compressed, and are kept so. */
  readonly encoding?: "gzip" | undefined;
  /** Compresses bytes that come plain; undefined: they stay as they are. */
  readonly compressionLevel?: number | undefined;
  /** Can be read once. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Stores the bytes, and returns what a document says to have them. Throws as `AttachmentStore.stage` does. */
export async function stageAttachment(
  store: AttachmentStore,
  database: Database,
  { name, contentType = CONTENT_TYPE_DEFAULT, revisionPosition, ...incoming }: IncomingAttachment,
  signal: AbortSignal,
): Promise<AttachmentEdit> {
  const { digest, length, encoding, compressionLevel } = incoming;
  const content = await store.stage(
    database,
    incoming.body,
    { encoding, expectedDigest: digest, expectedLength: length, compressionLevel },
    signal,
  );
  return {
    kind: "staged",
    name,
    contentType,
    content,
    ...(revisionPosition === undefined ? {} : { revisionPosition }),
  };
}
