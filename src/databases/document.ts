/**
 * Data types of the document model, as higher layers see them (CouchDB's RFCs 001 and 003).
 *
 * A body is JSON text without members that begin with an underscore. This layer does not parse
 * bodies, so numbers and member order are preserved. A body is read as stored UTF-8, and converted
 * to a string on request.
 */
import type { Utf8Text } from "../base/index.ts";
import type { Authority } from "./authority.ts";

/**
 * `generation-hash`, such as `3-917fa2381192822767f010b95b45325b`. Hashes created here have 32 hex
 * digits.
 */
export type Revision = string;

/**
 * A revision and its ancestors: `hashes[0]` belongs to generation `start`, `hashes[1]` to `start -
 * 1`, …
 */
export interface RevisionPath {
  readonly start: number;
  readonly hashes: readonly string[];
}

/** An attachment, as referenced by a document. */
export interface Attachment {
  readonly name: string;
  readonly contentType: string;
  /** Generation of the revision in which the attachment was added or last changed. */
  readonly revisionPosition: number;
  /**
   * Digest as in CouchDB: `md5-` followed by the base64 MD5 of the stored bytes (encoded, if
   * `encoding` is set).
   */
  readonly digest: string;
  /** Decoded length in bytes. */
  readonly length: number;
  /** `gzip` if the stored bytes are compressed. */
  readonly encoding: "gzip" | undefined;
  /** Stored length in bytes; equals `length` without an encoding. */
  readonly encodedLength: number;
  /** Opaque location of the bytes in this database. */
  readonly contentId: string;
}

/** A complete revision of a document. */
export interface Document {
  readonly id: string;
  readonly revision: Revision;
  readonly deleted: boolean;
  /** A JSON object without underscore members. */
  readonly body: Utf8Text;
  readonly revisions: RevisionPath;
  readonly attachments: readonly Attachment[];
  /**
   * Authority of this revision, in databases whose hook stores it. Absent in revisions from older
   * versions.
   */
  readonly authority?: Authority;
}

/**
 * An attachment in a write: a stub that refers to a stored attachment by name, or bytes that were
 * staged before.
 */
export type AttachmentEdit =
  | {
      readonly kind: "stub";
      readonly name: string;
      /** Digest that the stub gives for the stored attachment, if any. */
      readonly digest?: string;
      readonly revisionPosition?: number;
    }
  | {
      readonly kind: "staged";
      readonly name: string;
      readonly contentType: string;
      readonly content: StagedContent;
      /**
       * Position given by a replicated edit. An interactive edit uses the new revision's
       * generation.
       */
      readonly revisionPosition?: number;
    };

/** Uploaded bytes that no document references yet. They are reclaimed if they stay unreferenced. */
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
  /** Authority stored with the new leaf. Set only by hooks. */
  readonly authority?: Authority | undefined;
} & (
  | {
      /** An edit by a user: replaces a leaf or creates a document; otherwise a conflict. */
      readonly mode: "interactive";
      /** The leaf to be edited; undefined for a new document. */
      readonly parent: Revision | undefined;
    }
  | {
      /**
       * A revision from elsewhere with its ancestors, grafted onto the tree (`new_edits: false`).
       */
      readonly mode: "replicated";
      readonly revisions: RevisionPath;
    }
);

/** The result of one edit. Expected failures are outcomes rather than errors. */
export type WriteOutcome =
  | { readonly kind: "written"; readonly id: string; readonly revision: Revision }
  /** A replicated revision that already existed; nothing was written. */
  | { readonly kind: "known"; readonly id: string; readonly revision: Revision }
  | { readonly kind: "conflict"; readonly id: string }
  /** A stub refers to an attachment that no stored revision has (CouchDB: 412 `missing_stub`). */
  | { readonly kind: "missing-stub"; readonly id: string; readonly name: string }
  /** Refused by a hook with CouchDB's `forbidden` or `unauthorized`, or with another error name. */
  | {
      readonly kind: "rejected";
      readonly id: string;
      readonly error: string;
      readonly reason: string;
    };

/** A leaf of a document's revision tree. Lists have the winner first (CouchDB's order). */
export interface Leaf {
  readonly revision: Revision;
  readonly deleted: boolean;
}

/** A document in the changes feed, at the position of its latest change. */
export interface Change {
  readonly sequence: string;
  readonly id: string;
  readonly deleted: boolean;
  readonly winner: Revision;
  /** All leaves in CouchDB's order, winner first. */
  readonly leaves: readonly Leaf[];
}

/** A local document (`_local/…`): not replicated, without history. */
export interface LocalDocument {
  /** Id including the prefix `_local/`. */
  readonly id: string;
  /** Revision of the form `0-n`. */
  readonly revision: Revision;
  readonly body: Utf8Text;
}

export interface DatabaseInfo {
  readonly name: string;
  readonly documentCount: number;
  readonly deletedDocumentCount: number;
  readonly updateSequence: string;
  readonly purgeCount: number;
  /** CouchDB's `instance_start_time`; never changes while the database exists. */
  readonly instanceStartTime: string;
  /** 32 hex digits; differs for a re-created database. */
  readonly uuid: string;
  /**
   * Sizes in bytes, without the store's keys and pages. `external` and `active` are the sizes of
   * the bodies and attachments of all leaves, attachments uncompressed or as stored. `file` is
   * `active` plus the kept bodies and attachments of superseded revisions, which a compaction
   * clears.
   */
  readonly sizes: { readonly file: number; readonly external: number; readonly active: number };
}
