/**
 * Writes documents to a local database: many in one transaction, or one with its attachments.
 * Reports the documents that the store rejects.
 */
import { errorCode, OperationalError } from "../../../base/index.ts";
import type {
  AttachmentEdit,
  Database,
  DocumentEdit,
  WriteOutcome,
} from "../../../databases/index.ts";
import {
  isWritten,
  replicatedEdit,
  replicatedRevision,
  stageAttachments,
  stubEdit,
  transactValidated,
  type WholeAttachment,
  writeEdits,
  writeRefusal,
} from "../../../documents/index.ts";
import {
  inlineBytes,
  ProtocolError,
  parseWireDocument,
  type WireAttachment,
  type WireDocument,
} from "../../../protocol/index.ts";
import { digestFailure, digestMismatch } from "../attachment-digests.ts";
import {
  type AttachmentStream,
  EndpointError,
  type PlainDocument,
  type StreamedDocument,
  type WriteFailure,
  type WriteResult,
} from "../endpoint.ts";
import { namedRevision } from "../named-revision.ts";
import { refusalStatus } from "../refusal-status.ts";
import type { LocalAccess } from "./access.ts";

export class LocalDocumentWriter {
  readonly #access: LocalAccess;
  readonly #jobId: string | undefined;

  /** `jobId` is stored with the conflicts that the writes cause. */
  constructor(access: LocalAccess, jobId: string | undefined) {
    this.#access = access;
    this.#jobId = jobId;
  }

  async writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
  ): Promise<readonly WriteFailure[]> {
    const failures: WriteFailure[] = [];
    const edits = await this.#edits(documents, failures, signal);
    await writeEdits(edits, {
      transact: (edits) => this.#transact(edits),
      isRefusal: isDocumentRefusal,
      settled: (edit, outcome) => {
        const failure = writeFailure(edit, outcome);
        if (failure !== undefined) failures.push(failure);
      },
      refused: (edit, error) => failures.push(refusal(edit, error)),
      hasFollowUps: this.#access.parts.databases.hasFollowUps(this.#access.name),
    });
    return failures;
  }

  async writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    const database = await this.#access.read(async (_, opened) => opened);
    const parsed = this.#parse(document);
    if (parsed.kind === "refused") return parsed;
    let { edit } = parsed;
    try {
      const attachments = await this.#stage(database, parsed.wire, document.attachments, signal);
      edit = { ...edit, attachments };
      const [outcome] = (await this.#transact([edit])) as [WriteOutcome];
      if (outcome.kind === "missing-stub") return { kind: "missing-stub" };
      const failure = writeFailure(edit, outcome);
      return failure === undefined ? { kind: "written" } : { kind: "refused", failure };
    } catch (error) {
      if (!isDocumentRefusal(error)) throw error;
      return { kind: "refused", failure: refusal(edit, error) };
    }
  }

  /**
   * Parses a document, and checks that it is valid and not too large. All attachments in the
   * returned edit are stubs.
   */
  #parse(
    document: PlainDocument | StreamedDocument,
  ): ParsedDocument | { readonly kind: "refused"; readonly failure: WriteFailure } {
    try {
      const known = "wire" in document ? document.wire : undefined;
      const wire = known ?? parseWireDocument(document.text);
      const edit = replicatedEdit(wire, wire.attachments.map(stubEdit));
      if (this.#isTooLarge(edit)) return { kind: "refused", failure: tooLarge(edit) };
      return { kind: "document", wire, edit };
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      const { status, error: name, reason } = error;
      const revision = namedRevision(document.text);
      const { id } = document;
      return { kind: "refused", failure: { id, revision, status, error: name, reason } };
    }
  }

  /** Stores the attachments that follow a document. Stubs in the document remain stubs. */
  async #stage(
    database: Database,
    wire: WireDocument,
    streams: AsyncIterable<AttachmentStream>,
    signal: AbortSignal,
  ): Promise<AttachmentEdit[]> {
    const { attachments: store } = this.#access.parts;
    const edits = new Map<string, AttachmentEdit>();
    const following = new Map<string, WireAttachment>();
    for (const attachment of wire.attachments) {
      if (attachment.content.kind === "follows") following.set(attachment.name, attachment);
      else edits.set(attachment.name, stubEdit(attachment));
    }
    const incoming = async function* () {
      for await (const { name, body } of streams) {
        const attachment = following.get(name);
        if (attachment === undefined) continue;
        const { contentType, revisionPosition, digest } = attachment;
        const encoding = attachment.encoding === "gzip" ? "gzip" : undefined;
        yield { name, contentType, revisionPosition, digest, encoding, body } as const;
      }
    };
    for (const edit of await stageAttachments(store, database, incoming(), { signal })) {
      edits.set(edit.name, edit);
    }
    return [...edits.values()];
  }

  /**
   * Returns edits for the documents that can be written, with inline attachments stored. Adds the
   * others to `failures`.
   */
  async #edits(
    documents: readonly PlainDocument[],
    failures: WriteFailure[],
    signal: AbortSignal,
  ): Promise<readonly DocumentEdit[]> {
    const edits: DocumentEdit[] = [];
    const inline: InlineAttachments[] = [];
    for (const document of documents) {
      signal.throwIfAborted();
      const parsed = this.#parse(document);
      if (parsed.kind === "refused") {
        failures.push(parsed.failure);
        continue;
      }
      const { wire, edit } = parsed;
      if (wire.attachments.some(({ content }) => content.kind === "inline")) {
        const whole = wholeAttachments(wire.attachments);
        if (whole === undefined) {
          failures.push(failureOf(edit, "bad_request", "Invalid attachment data"));
          continue;
        }
        inline.push({ at: edits.length, whole });
      }
      edits.push(edit);
    }
    if (inline.length === 0) return edits;
    try {
      await this.#stageInline(edits, inline, signal);
      return edits;
    } catch (error) {
      if (errorCode(error) !== "STORE_ATTACHMENT_DIGEST_MISMATCH") throw error;
    }
    // Report the documents whose attachments do not match their digests, and store the attachments
    // of the others.
    const sound = documents.filter((document) => {
      const parsed = this.#parse(document);
      const failure = parsed.kind === "document" && this.#digestFailure(parsed);
      if (failure) failures.push(failure);
      return parsed.kind === "document" && !failure;
    });
    return this.#edits(sound, failures, signal);
  }

  #digestFailure({ wire, edit }: ParsedDocument): WriteFailure | undefined {
    const revision = replicatedRevision(edit) ?? "";
    const { digests } = this.#access.parts.runtime;
    return digestFailure(wire, { id: edit.id, revision }, digests);
  }

  async #stageInline(
    edits: DocumentEdit[],
    inline: readonly InlineAttachments[],
    signal: AbortSignal,
  ): Promise<void> {
    const { attachments: store } = this.#access.parts;
    const database = await this.#access.read(async (_, opened) => opened);
    const all = inline.flatMap(({ whole }) => whole);
    const staged = await stageAttachments(store, database, all, { signal });
    let next = 0;
    for (const { at, whole } of inline) {
      const edit = edits[at] as DocumentEdit;
      const bytesOf = new Map(whole.map(({ name }) => [name, staged[next++] as AttachmentEdit]));
      const attachments = edit.attachments.map((stub) => bytesOf.get(stub.name) ?? stub);
      edits[at] = { ...edit, attachments };
    }
  }

  /** Writes the edits in one transaction. Returns one outcome per edit. */
  async #transact(edits: readonly DocumentEdit[]): Promise<readonly WriteOutcome[]> {
    const { kv, functions } = this.#access.parts;
    const user = await this.#access.user();
    try {
      // Retry after an unknown outcome, because writing a replicated revision is idempotent.
      const again = { whenUnknown: "retry" } as const;
      return await transactValidated(kv, functions, again, async (tx, validation) => {
        const database = await this.#access.open(tx, user);
        return database.writeMany(tx, edits, {
          ...user,
          validation,
          bringsCopies: true,
          jobId: this.#jobId,
        });
      });
    } catch (error) {
      throw this.#access.shown(error);
    }
  }

  #isTooLarge({ body }: DocumentEdit): boolean {
    return body.exceedsBytes(this.#access.parts.documentLimits.documentBytesMax);
  }
}

interface ParsedDocument {
  readonly kind: "document";
  readonly wire: WireDocument;
  readonly edit: DocumentEdit;
}

/** The inline attachments of the edit with index `at`. */
interface InlineAttachments {
  readonly at: number;
  readonly whole: readonly WholeAttachment[];
}

/** Returns the attachments with inline bytes; undefined if any of them is invalid base64. */
function wholeAttachments(attachments: readonly WireAttachment[]): WholeAttachment[] | undefined {
  const whole: WholeAttachment[] = [];
  for (const { name, content, contentType, revisionPosition, digest } of attachments) {
    if (content.kind !== "inline") continue;
    const bytes = inlineBytes(content);
    if (bytes === undefined) return undefined;
    whole.push({ name, contentType, revisionPosition, digest, bytes });
  }
  return whole;
}

/**
 * Whether the store has rejected a single document. Any other error concerns the store as a whole.
 */
function isDocumentRefusal(error: unknown): boolean {
  const code = errorCode(error) ?? "";
  return /^(STORE_(DOCUMENT|REVISION|ATTACHMENT)_|KV_TOO_LARGE$|KV_KEY_TOO_LARGE$)/.test(code);
}

function writeFailure(edit: DocumentEdit, outcome: WriteOutcome): WriteFailure | undefined {
  if (isWritten(outcome)) return undefined;
  const { error, reason } = writeRefusal(outcome);
  return failureOf(edit, error, reason);
}

function refusal(edit: DocumentEdit, error: unknown): WriteFailure {
  if (!(error instanceof OperationalError) || error instanceof EndpointError) throw error;
  if (error.code === "STORE_ATTACHMENT_DIGEST_MISMATCH") {
    const revision = replicatedRevision(edit) ?? "";
    return { id: edit.id, revision, ...digestMismatch(String(error.details.name)) };
  }
  const { reason } = error.details;
  return failureOf(edit, error.code, typeof reason === "string" ? reason : error.message);
}

function failureOf(edit: DocumentEdit, error: string, reason: string): WriteFailure {
  const revision = replicatedRevision(edit) ?? "";
  return { id: edit.id, revision, status: refusalStatus(error), error, reason };
}

/** Returns the failure for a document that is too large, as in `_bulk_docs`. */
function tooLarge(edit: DocumentEdit): WriteFailure {
  return failureOf(edit, "document_too_large", edit.id);
}
