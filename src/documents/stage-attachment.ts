/** The bytes of attachments on their way into the store, before the document that refers to them. */
import { errorCode, OperationalError, type Turns } from "../base/index.ts";
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

/** An attachment whose bytes are to be stored, as its sender describes it. What is not said is not checked. */
export interface DescribedAttachment {
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
}

/** One whose bytes are on their way. */
export interface IncomingAttachment extends DescribedAttachment {
  /** Can be read once. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** One whose bytes are at hand. */
export interface WholeAttachment extends DescribedAttachment {
  readonly bytes: Uint8Array;
}

/** Stores the bytes, and returns what a document says to have them. Throws as `AttachmentStore.stage` does. */
export async function stageAttachment(
  store: AttachmentStore,
  database: Database,
  attachment: IncomingAttachment,
  signal: AbortSignal,
): Promise<AttachmentEdit> {
  const options = optionsOf(attachment);
  return editOf(attachment, await store.stage(database, attachment.body, options, signal));
}

/** As `stageAttachment` of each, in their order, with many small ones in one transaction. The next one is taken when it is needed. */
export async function stageAttachments(
  store: AttachmentStore,
  database: Database,
  attachments:
    | Iterable<WholeAttachment | IncomingAttachment>
    | AsyncIterable<WholeAttachment | IncomingAttachment>,
  options: { readonly turns?: Turns; readonly signal: AbortSignal },
): Promise<AttachmentEdit[]> {
  // What is kept of each has no bytes.
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

/** The store's error about an attachment, which knows bytes and no names. */
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
