/**
 * Updates jobs when their `_replicator` documents are written (RFC 016), in the same transaction.
 */
import {
  BYTES_PER_UNIT_MAX,
  errorCode,
  type Runtime,
  type Seal,
  type Utf8Text,
} from "../../base/index.ts";
import {
  type Authority,
  type Database,
  type DatabaseHook,
  type Document,
  type DocumentEdit,
  type EditVerdict,
  isSameAuthority,
  mayNameSecrets,
  type SecuritySubject,
  type WriteContext,
} from "../../databases/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import { addEndedJob, addJob, type JobOrigin } from "../job-changes/add-job.ts";
import { amendJob } from "../job-changes/amend-job.ts";
import { type RemoveJobParts, removeJob } from "../job-changes/remove-job.ts";
import { replaceJob } from "../job-changes/replace-job.ts";
import { type Decider, UNTOUCHED } from "../jobs/job-control.ts";
import {
  type Asked,
  persistentJobId,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
} from "../jobs/job-data.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import { isAmendment, stepWhenAskedAgain } from "../jobs/job-input.ts";
import { describeJob, jobTrace } from "../jobs/job-trace.ts";
import type { StoredLoginGates } from "../logins/stored-login-gates.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { adminOnlyRefusal } from "../request/admin-only.ts";
import { refuseSelf } from "../request/after.ts";
import {
  type Members,
  type ReplicationInvalidError,
  replicationMembers,
} from "../request/parse-fields.ts";
import { parseReplication } from "../request/parse-replication.ts";
import type { ReplicationIdContext } from "../request/replication-id.ts";
import { checkFormat, type HasPlacement } from "../request/run-on.ts";
import { authorityOfEdit, UNRECORDED, unrecordedAuthority } from "./leaf-authority.ts";
import { MASK, withStoredSecrets } from "./masked-secrets.ts";
import type { RemovedDatabases } from "./removed-databases.ts";
import { documentState, REPLICATOR } from "./replication-document.ts";
import {
  leavesRefusal,
  ownershipRefusal,
  visibleReplication,
  withOwner,
} from "./replication-document-access.ts";
import { type StoredOutcome, storedOutcome } from "./stored-outcome.ts";

export interface ReplicationHookParts extends RemoveJobParts {
  readonly loginGates: StoredLoginGates;
  readonly runtime: Runtime;
  readonly removedDatabases: RemovedDatabases;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
  readonly hasPlacement: HasPlacement;
  /** Encrypts stored documents, if the server has a key. */
  readonly seal?: Seal | undefined;
}

/**
 * Maximum length of a document. Bounds the duration of a transaction, and suffices for the maximum
 * number of `doc_ids`.
 */
const DOCUMENT_LENGTH_MAX = 2_000_000;

/** Whether the database contains replication documents. */
export function isReplicatorDatabase(name: string): boolean {
  return name === "_replicator" || name.endsWith("/_replicator");
}

/** An edit made by a user, as opposed to a replicated one. */
export type InteractiveEdit = DocumentEdit & { readonly mode: "interactive" };

/**
 * Whether a body is too long. Checks its size in bytes first, because a body that is too large need
 * not be decoded.
 */
function isTooLong(body: Utf8Text): boolean {
  const isSurely = body.length > DOCUMENT_LENGTH_MAX * BYTES_PER_UNIT_MAX;
  return isSurely || body.text.length > DOCUMENT_LENGTH_MAX;
}

/** A parsed document that is about to be written. */
interface Parsed {
  readonly members: Members;
  readonly asked: Asked;
}

export class ReplicationHook implements DatabaseHook {
  readonly #parts: ReplicationHookParts;

  constructor(parts: ReplicationHookParts) {
    this.#parts = parts;
  }

  appliesTo(databaseName: string): boolean {
    return isReplicatorDatabase(databaseName);
  }

  get seal(): Seal | undefined {
    return this.#parts.seal;
  }

  /**
   * Rejects an edit that the writer is not allowed to make, and a document whose job could never
   * run. Sets the owner of an accepted document.
   */
  async beforeWrite(
    tx: Transaction,
    database: Database,
    edit: DocumentEdit,
    context: WriteContext,
  ): Promise<EditVerdict> {
    if (context.replicator === REPLICATOR || edit.id.startsWith("_design/")) {
      return { edit, followUp: async () => {} };
    }
    if (isTooLong(edit.body)) {
      const reason = `A replication document must not have more than ${DOCUMENT_LENGTH_MAX} characters`;
      return { rejected: "forbidden", reason };
    }
    const refusal =
      (await leavesRefusal(tx, database, edit)) ??
      (await ownershipRefusal(tx, database, edit, context));
    if (refusal !== undefined) return refusal;
    const authority = await authorityOfEdit(tx, database, edit, context, () =>
      this.#job(tx, database, edit.id),
    );
    if (edit.deleted) {
      const id = persistentJobId(database.uuid, edit.id);
      return { edit: { ...edit, authority }, followUp: () => this.#remove(tx, id) };
    }
    if (edit.mode === "replicated") return { edit: { ...edit, authority } };
    const unmasked = withStoredSecrets(edit.body, await parentBody(tx, database, edit));
    if (unmasked.kind === "refused") return { rejected: "forbidden", reason: unmasked.reason };
    const members = replicationMembers(unmasked.body.text);
    const body = withOwner(unmasked.body, members.owner, context);
    const accepted = { ...edit, body, authority };
    if (documentState(members) === "failed") return { edit: accepted };
    const place = { database: database.name, id: edit.id };
    const asked = await this.#parse(tx, members, authority, place);
    if (asked.refusal !== undefined) return { rejected: "forbidden", reason: asked.refusal.reason };
    const followUp = (): Promise<void> =>
      this.#updateJob(tx, database, accepted, context, { members, asked });
    return { edit: accepted, followUp };
  }

  afterRead(document: Document, reader: SecuritySubject): Document {
    return visibleReplication(document, reader);
  }

  async afterWrite(
    tx: Transaction,
    database: Database,
    document: Document,
    context: WriteContext,
  ): Promise<void> {
    if (context.replicator === REPLICATOR || document.id.startsWith("_design/")) return;
    if (document.deleted) await this.#remove(tx, persistentJobId(database.uuid, document.id));
    else await this.#updateJob(tx, database, document, context);
  }

  /** Adds, replaces or removes a document's job. `parsed` is absent for a replicated revision. */
  async #updateJob(
    tx: Transaction,
    database: Database,
    document: Pick<DocumentEdit, "id" | "body" | "authority">,
    context: WriteContext,
    parsed?: Parsed,
  ): Promise<void> {
    const id = persistentJobId(database.uuid, document.id);
    const members = parsed?.members ?? replicationMembers(document.body.text);
    const stored = storedOutcome(members);
    const existing = await this.#job(tx, database, document.id);
    const authority = document.authority ?? unrecordedAuthority(members, existing);
    const { pausing } = context;
    // A document with a final state requests no run. If its job exists, nothing changes. If not,
    // the document was imported, and its state is the outcome of a run on another server.
    const isOwnJob = existing !== undefined && isSameAuthority(decodeJob(existing), authority);
    const isKept = stored !== undefined && isOwnJob && pausing === undefined;
    const place = { database: database.name, id: document.id };
    const asked = parsed?.asked ?? (await this.#parse(tx, members, authority, place));
    const { replication } = asked;
    if (isKept) {
      if (replication !== undefined) await amendJob(this.#parts, tx, existing, replication);
      return;
    }
    const isRecorded = document.authority !== undefined || replication === undefined;
    const may = isRecorded ? asked : { replication: undefined, refusal: UNRECORDED };
    const origin = { database: database.name, databaseUuid: database.uuid, id: document.id };
    const wanted = { ...may, ...authority, document: origin };
    if (stored !== undefined) {
      if (existing !== undefined) await removeJob(this.#parts, tx, existing);
      await this.#addEnded(tx, id, wanted, stored);
      return;
    }
    if (replication !== undefined && existing !== undefined) {
      const { controls } = this.#parts;
      const again = { replication, ...authority };
      const isSame =
        isAmendment(existing, again) ||
        (await stepWhenAskedAgain(tx, controls, existing, again)) === "nothing";
      if (isSame && (pausing === undefined || (await controls.get(tx, id)).isPaused)) {
        return amendJob(this.#parts, tx, existing, replication);
      }
    }
    if (pausing === undefined && existing !== undefined) {
      await replaceJob(this.#parts, tx, existing, wanted);
      return;
    }
    if (existing !== undefined) await removeJob(this.#parts, tx, existing);
    const isPaused = pausing !== undefined;
    const data = await addJob(this.#parts, tx, id, wanted, { isPaused });
    if (isPaused) this.#notePause(tx, id, data, { ...pausing, userName: context.userName });
  }

  /** Records that the job was added as paused, and by whom. Emits an event after the commit. */
  #notePause(tx: Transaction, jobId: string, data: ReplicationJobData, decider: Decider): void {
    const { controls, runtime } = this.#parts;
    const { requestId, ...decision } = decider;
    const { userName, why } = decision;
    const action = "pause";
    controls.decide(tx, jobId, UNTOUCHED, { action, ...decision, timeMs: runtime.clock.nowMs() });
    const trace = jobTrace(runtime.trace, describeJob(jobId, data));
    tx.afterCommit(() =>
      trace.event("replication.controlled", { jobId, action, userName, why, requestId }),
    );
  }

  async databaseRemoved(tx: Transaction, database: Database): Promise<void> {
    this.#parts.removedDatabases.mark(tx, database.uuid);
  }

  /** Adds a job that ended in another replicator, so that it is listed and can be retried. */
  async #addEnded(
    tx: Transaction,
    id: string,
    origin: JobOrigin,
    { outcome, statistics, checkpointedSequence: sequence, ...times }: StoredOutcome,
  ): Promise<void> {
    const endedMs = times.endedMs ?? this.#parts.runtime.clock.nowMs();
    await addEndedJob(this.#parts, tx, id, origin, {
      ...outcome,
      statistics,
      checkpointedSequence: sequence,
      throughSequence: sequence,
      sourceSequence: sequence,
      lastStartMs: times.startedMs ?? endedMs,
      lastUpdatedMs: endedMs,
    });
  }

  #job(tx: Transaction, { uuid }: Database, documentId: string): Promise<Job | undefined> {
    const id = persistentJobId(uuid, documentId);
    return this.#parts.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
  }

  async #remove(tx: Transaction, id: string): Promise<void> {
    const existing = await this.#parts.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (existing !== undefined) await removeJob(this.#parts, tx, existing);
  }

  /**
   * Returns the parsed request, or the reason for rejecting it: it is malformed, or the user lacks
   * a permission.
   */
  async #parse(
    tx: ReadTransaction,
    members: Members,
    authority: Authority,
    document: { readonly database: string; readonly id: string },
  ): Promise<Asked> {
    try {
      const replication = parseReplication(members, this.#parts.config);
      await checkFormat(tx, replication, this.#parts.hasPlacement);
      refuseSelf(replication.after, document);
      const reason = mayNameSecrets(authority) ? undefined : adminOnlyRefusal(replication);
      if (reason === undefined) return { replication, refusal: undefined };
      return { replication: undefined, refusal: { error: "forbidden", reason } };
    } catch (error) {
      if (errorCode(error) !== "REPLICATOR_INVALID") throw error;
      const { reason } = error as ReplicationInvalidError;
      return { replication: undefined, refusal: { error: "bad_rep_doc", reason } };
    }
  }
}

/**
 * Returns the stored body that an edit replaces, if the edit contains masks; otherwise undefined.
 */
export async function parentBody(
  tx: ReadTransaction,
  database: Database,
  edit: InteractiveEdit,
): Promise<Utf8Text | undefined> {
  if (edit.parent === undefined || !edit.body.text.includes(MASK)) return undefined;
  const [parent] = await database.documents.readRevision(tx, edit.id, edit.parent);
  return parent?.deleted === false ? parent.body : undefined;
}
