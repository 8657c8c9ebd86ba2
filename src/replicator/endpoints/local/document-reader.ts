/**
 * Reads documents of a local database, in the form that a server would send. Attachments are read
 * while they are sent.
 */
import { type JsonText, sum, type Utf8Writer } from "../../../base/index.ts";
import {
  type Attachment,
  type Database,
  type Document,
  PageSize,
} from "../../../databases/index.ts";
import { attachmentsSince, renderStoredDocument } from "../../../documents/index.ts";
import {
  renderWireDocument,
  type WireAttachment,
  type WireDocument,
  writeWireDocument,
} from "../../../protocol/index.ts";
import { attachmentMd5 } from "../attachment-md5.ts";
import type {
  AttachmentStream,
  BulkReadResult,
  PlainDocument,
  ReadRevisionsOptions,
  RevisionRequest,
  StreamedDocument,
} from "../endpoint.ts";
import type { LocalAccess } from "./access.ts";

/** Total length of the bodies after which a read ends. */
const READ_LENGTH_AIM = 4_000_000;

export class LocalDocumentReader {
  readonly #access: LocalAccess;
  readonly #size: PageSize;

  constructor(access: LocalAccess) {
    this.#access = access;
    this.#size = new PageSize(access.parts.runtime.clock);
  }

  async readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
    { attachments = false }: ReadRevisionsOptions = {},
  ): Promise<readonly BulkReadResult[]> {
    const results: BulkReadResult[] = [];
    let readLength = 0;
    while (results.length < requests.length && readLength < READ_LENGTH_AIM) {
      signal.throwIfAborted();
      const { count, learn } = this.#size.begin();
      const page = requests.slice(results.length, results.length + count);
      const { database, found } = await this.#access.read(async (tx, opened) => ({
        database: opened,
        found: await opened.documents.readRevisions(tx, page, { latest: true }),
      }));
      const length = sum(found.flat().map(({ body }) => body.length));
      learn(found.length, length);
      readLength += length;
      for (const documents of found) {
        const data = attachments ? await this.#inlineData(database, documents, signal) : NO_DATA;
        results.push(bulkReadResult(documents, data));
      }
    }
    return results;
  }

  /** Reads the attachments of these documents. Skips documents with a compressed attachment. */
  async #inlineData(
    database: Database,
    documents: readonly Document[],
    signal: AbortSignal,
  ): Promise<InlineData> {
    const { attachments: store } = this.#access.parts;
    const data = new Map<Attachment, Uint8Array>();
    for (const { attachments } of documents) {
      if (attachments.some(({ encoding }) => encoding !== undefined)) continue;
      for (const attachment of attachments) {
        const bytes = await store.readWhole(database, attachment, { decoded: false }, signal);
        data.set(attachment, bytes);
      }
    }
    return data;
  }

  async readRevision(
    { id, revision, ancestors }: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { database, documents } = await this.#access.read(async (tx, opened) => ({
      database: opened,
      documents: await opened.documents.readRevision(tx, id, revision, { latest: true }),
    }));
    for (const document of documents) {
      await consume(this.#streamed(database, document, ancestors, signal));
    }
    return documents.length > 0;
  }

  async attachmentMd5(
    { id, revision }: Pick<RevisionRequest, "id" | "revision">,
    name: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { runtime, attachments: store } = this.#access.parts;
    const { database, documents } = await this.#access.read(async (tx, opened) => ({
      database: opened,
      documents: await opened.documents.readRevision(tx, id, revision),
    }));
    const attachment = documents[0]?.attachments.find((one) => one.name === name);
    if (attachment === undefined) return undefined;
    return attachmentMd5(runtime, store.read(database, attachment, { decoded: true }, signal));
  }

  #streamed(
    database: Database,
    document: Document,
    ancestors: readonly string[],
    signal: AbortSignal,
  ): StreamedDocument {
    const { attachments: store } = this.#access.parts;
    const following = sentAttachments(document, ancestors);
    const sent = new Set(following);
    const outline = following.map(({ name, encodedLength, contentType, encoding }) => ({
      name,
      length: encodedLength,
      contentType,
      encoding,
    }));
    return {
      id: document.id,
      text: renderStoredDocument(document, {
        revisions: true,
        encodingInfo: true,
        attachmentForm: (attachment) => ({ kind: sent.has(attachment) ? "follows" : "stub" }),
      }),
      hasStubs: following.length < document.attachments.length,
      outline,
      attachments: (async function* (): AsyncIterable<AttachmentStream> {
        for (const [index, attachment] of following.entries()) {
          const body = store.read(database, attachment, { decoded: false }, signal);
          yield { ...(outline[index] as Omit<AttachmentStream, "body">), body };
        }
      })(),
    };
  }
}

/**
 * Returns the attachments whose bytes are sent to a peer that has the revisions `ancestors`:
 * attachments that the peer lacks, and attachments of unknown age. A revision position (`revpos`)
 * of 0 means an unknown age: CouchDB assigns it to attachments that arrived without a position.
 */
function sentAttachments(document: Document, ancestors: readonly string[]): readonly Attachment[] {
  const lacking = attachmentsSince(document, ancestors);
  return document.attachments.filter(
    ({ name, revisionPosition }) => revisionPosition === 0 || lacking.has(name),
  );
}

/** Contents of the attachments to be inlined. */
type InlineData = ReadonlyMap<Attachment, Uint8Array>;

const NO_DATA: InlineData = new Map();

function bulkReadResult(documents: readonly Document[], data: InlineData): BulkReadResult {
  const read = documents.map((document) => new StoredPlainDocument(document, data));
  if (documents.length === 0) return { kind: "separately" };
  const isWhole = documents.every(({ attachments }) => attachments.every((one) => data.has(one)));
  return isWhole ? { kind: "documents", documents: read } : { kind: "separately", outlines: read };
}

/**
 * A document in its stored form. A local target uses the parsed document; a server receives the
 * bytes. Attachments without data become stubs.
 */
class StoredPlainDocument implements PlainDocument {
  readonly #document: Document;
  readonly #data: InlineData;

  constructor(document: Document, data: InlineData) {
    this.#document = document;
    this.#data = data;
  }

  get id(): string {
    return this.#document.id;
  }

  get length(): number {
    const { id, body, revisions, attachments } = this.#document;
    let length = id.length + body.length + revisions.hashes.length * REVISION_CHARACTERS;
    for (const attachment of attachments) {
      length += ATTACHMENT_CHARACTERS + attachment.name.length;
      length += Math.ceil((this.#data.get(attachment)?.length ?? 0) / 3) * 4;
    }
    return length;
  }

  get text(): JsonText {
    return renderWireDocument(this.wire);
  }

  get wire(): WireDocument & { readonly id: string } {
    const { attachments } = this.#document;
    if (attachments.length === 0) return { ...this.#document, attachments: [] };
    return {
      ...this.#document,
      attachments: attachments.map((attachment) => this.#wireAttachment(attachment)),
    };
  }

  writeTo(writer: Utf8Writer): void {
    writeWireDocument(writer, this.wire);
  }

  #wireAttachment(attachment: Attachment): WireAttachment {
    const { name, contentType, revisionPosition, digest, length } = attachment;
    const { encoding, encodedLength } = attachment;
    const data = this.#data.get(attachment);
    return {
      name,
      content: data === undefined ? { kind: "stub" } : { kind: "inline", data },
      contentType,
      revisionPosition,
      digest,
      length,
      encoding,
      encodedLength: encoding === undefined ? undefined : encodedLength,
    };
  }
}

/** Number of characters that a hash takes in a list of revisions. */
const REVISION_CHARACTERS = 35;
/** Estimated number of characters of an attachment's metadata. */
const ATTACHMENT_CHARACTERS = 128;
