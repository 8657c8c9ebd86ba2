/**
 * The nouns of the document model, as the layers above see them (RFCs 001 and 003 of CouchDB).
 *
 * A body is kept as JSON text without the members that begin with an underscore. This layer does not parse it, so
 * numbers and member order do not change. It is read as the stored UTF-8, and converted to characters on request.
 */
import type { Utf8Text } from "../base/index.ts";
import type { Authority } from "./authority.ts";

/** `generation-hash`, such as `3-917fa2381192822767f010b95b45325b`. The hash is 32 hex digits when we made it. */
export type Revision = string;

/** A revision and its ancestors: `hashes[0]` belongs to generation `start`, `hashes[1]` to `start - 1`, … */
export interface RevisionPath {
  readonly start: number;
  readonly hashes: readonly string[];
}

/** An attachment as a document refers to it. */
export interface Attachment {
  readonly name: string;
  readonly contentType: string;
  /** The generation of the revision in which it was added or last changed. */
  readonly revisionPosition: number;
  /** `md5-` and the base64 of the MD5 of the bytes as stored (encoded, when `encoding` is set), as CouchDB has it. */
  readonly digest: string;
  /** The length in bytes when decoded. */
  readonly length: number;
  /** `gzip` when the stored bytes are compressed. */
  readonly encoding: "gzip" | undefined;
  /** The length in bytes as stored; equals `length` without an encoding. */
  readonly encodedLength: number;
  /** Where this database keeps the bytes; opaque. */
  readonly contentId: string;
}

/** One revision of a document, whole. */
export interface Document {
  readonly id: string;
  readonly revision: Revision;
  readonly deleted: boolean;
  /** A JSON object without underscore members. */
  readonly body: Utf8Text;
  readonly revisions: RevisionPath;
  readonly attachments: readonly Attachment[];
  /** Of this revision, in databases whose hook keeps it; absent in revisions of older versions. */
  readonly authority?: Authority;
}

/** An attachment in a write: kept from the parent by name, or bytes that were staged before. */
export type AttachmentEdit =
  | {
      readonly kind: "stub";
      readonly name: string;
      /** Which stored attachment is meant, when the writer says so. */
      readonly digest?: string;
      readonly revisionPosition?: number;
    }
  | {
      readonly kind: "staged";
      readonly name: string;
      readonly contentType: string;
      readonly content: StagedContent;
      /** Kept in a replicated edit; the new revision's generation in an interactive one. */
      readonly revisionPosition?: number;
    };

/** Bytes that are in the database and wait for a document to refer to them; reclaimed if none does. */
export interface StagedContent {
  readonly contentId: string;
  readonly digest: string;
  readonly length: number;
  readonly encoding: "gzip" | undefined;
  readonly encodedLength: number;
}

/** A write of one document. */
export type DocumentEdit = {
  readonly id: string;
  readonly deleted: boolean;
  readonly body: Utf8Text;
  readonly attachments: readonly AttachmentEdit[];
  /** Stored with the new leaf. Only hooks set it. */
  readonly authority?: Authority | undefined;
} & (
  | {
      /** A user's edit of a leaf: it makes a new revision, or is a conflict. */
      readonly mode: "interactive";
      /** The leaf that is edited; undefined for a new document. */
      readonly parent: Revision | undefined;
    }
  | {
      /** A revision that was made elsewhere, with its ancestors: it is grafted on the tree (`new_edits: false`). */
      readonly mode: "replicated";
      readonly revisions: RevisionPath;
    }
);

/** What became of one edit. Expected outcomes are values. */
export type WriteOutcome =
  | { readonly kind: "written"; readonly id: string; readonly revision: Revision }
  /** Replicated and already there: nothing was written. */
  | { readonly kind: "known"; readonly id: string; readonly revision: Revision }
  | { readonly kind: "conflict"; readonly id: string }
  /** A stub names an attachment that no stored revision has (CouchDB answers 412 `missing_stub`). */
  | { readonly kind: "missing-stub"; readonly id: string; readonly name: string }
  /** A hook refused it: CouchDB's `forbidden`, `unauthorized`, or another name of an error. */
  | {
      readonly kind: "rejected";
      readonly id: string;
      readonly error: string;
      readonly reason: string;
    };

/** The leaves of a document's revision tree, winner first (CouchDB's order). */
export interface Leaf {
  readonly revision: Revision;
  readonly deleted: boolean;
}

/** A document in the changes feed, at its latest place. */
export interface Change {
  readonly sequence: string;
  readonly id: string;
  readonly deleted: boolean;
  readonly winner: Revision;
  /** All leaves, winner first, then in CouchDB's order. */
  readonly leaves: readonly Leaf[];
}

/** A local document (`_local/…`): not replicated, without history. */
export interface LocalDocument {
  /** With its `_local/` prefix. */
  readonly id: string;
  /** `0-n`. */
  readonly revision: Revision;
  readonly body: Utf8Text;
}

export interface DatabaseInfo {
  readonly name: string;
  readonly documentCount: number;
  readonly deletedDocumentCount: number;
  readonly updateSequence: string;
  /** How many purges there ever were. */
  readonly purgeCount: number;
  /** Constant for the life of the database: what CouchDB reports as `instance_start_time`. */
  readonly instanceStartTime: string;
  /** 32 hex digits; a re-created database has another. */
  readonly uuid: string;
  readonly sizes: { readonly file: number; readonly external: number; readonly active: number };
}
