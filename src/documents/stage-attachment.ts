/** Stores the bytes of attachments before the document that references them is written. */
import { errorCode, OperationalError, type Yielder } from "../base/index.ts";
import type {
  AttachmentEdit,
  AttachmentStore,
  Database,
  StagedContent,
  StageOptions,
} from "../databases/index.ts";
import { isMd5Digest } from "../protocol/index.ts";

/** The default type of an attachment. */
export const CONTENT_TYPE_DEFAULT = "application/octet-stream";

/**
 * An attachment to be stored, as described by its sender. Digest and length are verified if they
 * are given.
 */
export interface DescribedAttachment {
  readonly name: string;
  readonly contentType?: string | undefined;
  readonly revisionPosition?: number | undefined;
  /** Digest of the bytes as received. */
  readonly digest?: string | undefined;
  /** Length of the bytes as received. */
  readonly length?: number | undefined;
  /** Set if the bytes arrive compressed; they are stored unchanged. */
  readonly encoding?: "gzip" | undefined;
  /** Compression level for uncompressed bytes. Default: not compressed. */
  readonly compressionLevel?: number | undefined;
}

/** An attachment whose bytes are still being received. */
export interface IncomingAttachment extends DescribedAttachment {
  /** Bytes, which can be read only once. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** An attachment whose bytes are in memory. */
export interface WholeAttachment extends DescribedAttachment {
  readonly bytes: Uint8Array;
}

/**
 * Stores the bytes and returns the reference for the document. Throws like `AttachmentStore.stage`.
 */
export async function stageAttachment(
  store: AttachmentStore,
  database: Database,
  attachment: IncomingAttachment,
  signal: AbortSignal,
): Promise<AttachmentEdit> {
  const options = optionsOf(attachment);
  return editOf(attachment, await store.stage(database, attachment.body, options, signal));
}

/**
 * Stages several attachments in order, many small ones per transaction. Reads the attachments
 * lazily.
 */
export async function stageAttachments(
  store: AttachmentStore,
  database: Database,
  attachments:
    | Iterable<WholeAttachment | IncomingAttachment>
    | AsyncIterable<WholeAttachment | IncomingAttachment>,
  options: { readonly yielder?: Yielder; readonly signal: AbortSignal },
): Promise<AttachmentEdit[]> {
  // Keeps only the descriptions, so that the bytes can be garbage-collected.
  const described: DescribedAttachment[] = [];
  const contents = async function* () {
    for await (const attachment of attachments) {
      if ("bytes" in attachment) {
        const { bytes, ...rest } = attachment;
        described.push(rest);
        yield { bytes, options: optionsOf(rest) };
      } else {
        const { body: chunks, ...rest } = attachment;
        described.push(rest);
        yield { chunks, options: optionsOf(rest) };
      }
    }
  };
  const staged = await store.stageAll(database, contents(), options).catch((error: unknown) => {
    throw withName(error, described.at(-1)?.name);
  });
  return staged.map((content, index) => editOf(described[index] as DescribedAttachment, content));
}

/** Adds the attachment's name to an error of the store. */
function withName(error: unknown, name: string | undefined): unknown {
  const isOfStore = errorCode(error)?.startsWith("STORE_ATTACHMENT_") === true;
  if (!(error instanceof OperationalError && isOfStore)) return error;
  return new OperationalError(
    error.code,
    error.message,
    { ...error.details, name },
    { cause: error },
  );
}

function optionsOf({
  digest,
  length,
  encoding,
  compressionLevel,
}: DescribedAttachment): StageOptions {
  const expectedDigest = isMd5Digest(digest) ? digest : undefined;
  return { encoding, expectedDigest, expectedLength: length, compressionLevel };
}

function editOf(
  { name, contentType = CONTENT_TYPE_DEFAULT, revisionPosition }: DescribedAttachment,
  content: StagedContent,
): AttachmentEdit {
  return {
    kind: "staged",
    name,
    contentType,
    content,
    ...(revisionPosition === undefined ? {} : { revisionPosition }),
  };
}
