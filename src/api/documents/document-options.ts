/** Query parameters for reading documents, with CouchDB's names. */
import { badRequest, parseRevision } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { flagParameter, textListParameter } from "../http/query.ts";

/** Members to include besides the body. */
export interface ViewOptions {
  /** `revs=true`: include `_revisions`. */
  readonly revisions: boolean;
  /** `revs_info=true`: include `_revs_info`. */
  readonly revisionsInfo: boolean;
  readonly conflicts: boolean;
  readonly deletedConflicts: boolean;
  /** `local_seq=true`: include `_local_seq`. */
  readonly localSequence: boolean;
  /** `attachments` or `atts_since`: include the bytes of attachments. */
  readonly attachments: boolean;
  /** `atts_since`: revisions known to the client. Only newer attachments are sent. */
  readonly attachmentsSince: readonly string[] | undefined;
  /** `att_encoding_info`: include `encoding` and `encoded_length` of compressed attachments. */
  readonly encodingInfo: boolean;
}

/** Options for reading one document. */
export interface DocumentOptions extends ViewOptions {
  readonly revision: string | undefined;
  readonly openRevisions: "all" | readonly string[] | undefined;
  readonly latest: boolean;
}

export const PLAIN_VIEW: ViewOptions = {
  revisions: false,
  revisionsInfo: false,
  conflicts: false,
  deletedConflicts: false,
  localSequence: false,
  attachments: false,
  attachmentsSince: undefined,
  encodingInfo: false,
};

export function documentOptions(call: Call): DocumentOptions {
  const { query } = call.request;
  const meta = flagParameter(call, "meta");
  const attachmentsSince = textListParameter(call, "atts_since");
  attachmentsSince?.forEach(checkRevision);
  const options: DocumentOptions = {
    revision: query.get("rev"),
    openRevisions: openRevisions(call),
    latest: flagParameter(call, "latest"),
    revisions: flagParameter(call, "revs"),
    revisionsInfo: meta || flagParameter(call, "revs_info"),
    conflicts: meta || flagParameter(call, "conflicts"),
    deletedConflicts: meta || flagParameter(call, "deleted_conflicts"),
    localSequence: flagParameter(call, "local_seq"),
    attachments: attachmentsSince !== undefined || flagParameter(call, "attachments"),
    attachmentsSince,
    encodingInfo: flagParameter(call, "att_encoding_info"),
  };
  if (options.revision !== undefined) checkRevision(options.revision);
  return options;
}

/** Checks the format of a revision. Throws CouchDB's error if it is invalid. */
export function checkRevision(revision: string): void {
  if (parseRevision(revision) === undefined) throw badRequest("Invalid rev format");
}

function openRevisions(call: Call): "all" | readonly string[] | undefined {
  const text = call.request.query.get("open_revs");
  if (text === undefined || text === "all" || text === '"all"') {
    return text === undefined ? undefined : "all";
  }
  const revisions = textListParameter(call, "open_revs");
  revisions?.forEach(checkRevision);
  return revisions;
}
