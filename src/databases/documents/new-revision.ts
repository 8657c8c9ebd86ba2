/**
 * The name of a new revision: an MD5 over all parts of the edit. The same edit of the same revision
 * gets the same name on every node, so two nodes that make the same edit do not conflict.
 *
 * CouchDB hashes an Erlang term (`couch_db:new_revid`). This format is a byte string that any
 * language can build. The format must never change: otherwise equal edits on nodes of different
 * versions would conflict.
 */
import { type Digests, md5HexOf } from "../../base/index.ts";
import type { Attachment } from "../document.ts";
import { digestBytes } from "../records/body-record.ts";
import { RecordWriter } from "../records/record-bytes.ts";
import type { RevisionParts } from "../revisions/revision.ts";

const FORM = 1;
/** Maximum length of a body that is copied before hashing; longer bodies are hashed in place. */
const COPIED_BYTES_MAX = 16_384;

export interface NewRevision {
  readonly deleted: boolean;
  readonly parent: RevisionParts | undefined;
  /** JSON text in UTF-8. */
  readonly body: Uint8Array;
  readonly attachments: readonly Attachment[];
}

export function newRevisionHash(digests: Digests, revision: NewRevision): string {
  const { deleted, parent, body, attachments } = revision;
  const writer = new RecordWriter();
  writer.byte(FORM).byte(deleted ? 1 : 0);
  writer.integer(parent?.generation ?? 0).text(parent?.hash ?? "");
  writer.integer(body.length);
  if (body.length <= COPIED_BYTES_MAX) {
    writer.raw(body);
    writeAttachments(writer, attachments);
    return digests.md5Hex(writer.finishBriefly());
  }
  const rest = new RecordWriter();
  writeAttachments(rest, attachments);
  return md5HexOf(digests, [writer.finish(), body, rest.finishBriefly()]);
}

function writeAttachments(writer: RecordWriter, attachments: readonly Attachment[]): void {
  const sorted = attachments.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  writer.integer(sorted.length);
  for (const { name, contentType, digest, encoding } of sorted) {
    writer
      .text(name)
      .text(contentType)
      .raw(digestBytes(digest))
      .text(encoding ?? "");
  }
}
