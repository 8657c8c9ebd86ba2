/**
 * Reads documents of a database of our own, as the text that a server would send. Attachments are read while they are
 * sent.
 */
import type { JsonText, Utf8Writer } from "../../../base/index.ts";
import type { Database, Document } from "../../../databases/index.ts";
import { attachmentsSince, renderStoredDocument } from "../../../documents/index.ts";
import {
  renderWireDocument,
  type WireDocument,
  writeWireDocument,
} from "../../../protocol/index.ts";
import type {
  AttachmentStream,
  BulkReadResult,
  PlainDocument,
  RevisionRequest,
  StreamedDocument,
} from "../endpoint.ts";
import type { LocalAccess } from "./access.ts";

/** Documents read in one transaction: few enough to be far from its limit in time. */
const DOCUMENTS_MAX = 100;

export class LocalDocumentReader {
  readonly #access: LocalAccess;

  constructor(access: LocalAccess) {
    this.#access = access;
  }

  async readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
  ): Promise<readonly BulkReadResult[]> {
    const results: BulkReadResult[] = [];
    for (let start = 0; start < requests.length; start += DOCUMENTS_MAX) {
      signal.throwIfAborted();
      const page = requests.slice(start, start + DOCUMENTS_MAX);
      const documents = await this.#access.read((tx, database) =>
        database.readRevisions(tx, page, { latest: true }),
      );
      results.push(...documents.map(bulkReadResult));
    }
    return results;
  }

  async readRevision(
    { id, revision, ancestors }: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { database, documents } = await this.#access.read(async (tx, opened) => ({
      database: opened,
      documents: await opened.readRevision(tx, id, revision, { latest: true }),
    }));
    for (const document of documents) {
      await consume(this.#streamed(database, document, ancestors, signal));
    }
    return documents.length > 0;
  }

  #streamed(
    database: Database,
    document: Document,
    ancestors: readonly string[],
    signal: AbortSignal,
  ): StreamedDocument {
    const { attachments: store } = this.#access.parts;
    const sent = attachmentsSince(document, ancestors);
    const following = document.attachments.filter(({ name }) => sent.has(name));
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
        attachmentForm: ({ name }) => ({ kind: sent.has(name) ? "follows" : "stub" }),
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

function bulkReadResult(documents: readonly Document[]): BulkReadResult {
  const separately = documents.some(({ attachments }) => attachments.length > 0);
  if (documents.length === 0 || separately) return { kind: "separately" };
  return {
    kind: "documents",
    documents: documents.map((document) => new StoredPlainDocument(document)),
  };
}

/** It stays as it is stored: a target of our own takes what it says, and another its bytes. */
class StoredPlainDocument implements PlainDocument {
  readonly #document: Document;

  constructor(document: Document) {
    this.#document = document;
  }

  get id(): string {
    return this.#document.id;
  }

  get length(): number {
    const { id, body, revisions } = this.#document;
    return id.length + body.length + revisions.hashes.length * REVISION_CHARACTERS;
  }

  get text(): JsonText {
    return renderWireDocument({ ...this.#document, attachments: [] });
  }

  get wire(): WireDocument {
    return { ...this.#document, attachments: [] };
  }

  writeTo(writer: Utf8Writer): void {
    writeWireDocument(writer, { ...this.#document, attachments: [] });
  }
}

/** Of a hash in a list. */
const REVISION_CHARACTERS = 35;
