/**
 * Dry run of a replication document: whether it would be accepted, whether its endpoints can be
 * opened with the permissions of its job, and whether another job has the same replication id.
 * Writes nothing, locally or remotely.
 */

import { finishWithin, type Runtime, valuesNow } from "../base/index.ts";
import type { FailureClass } from "../contract/index.ts";
import {
  type Authority,
  authorityOf,
  type Database,
  type DatabaseRegistry,
  ownerKey,
  type WriteContext,
} from "../databases/index.ts";
import { isWritten, writeRefusal } from "../documents/index.ts";
import type { KeyValueStore, ReadTransaction } from "../kv/index.ts";
import { ChecksBusyError } from "./checks-busy.ts";
import { withStoredSecrets } from "./documents/masked-secrets.ts";
import { ownerOnceWritten } from "./documents/replication-document-access.ts";
import {
  type InteractiveEdit,
  isReplicatorDatabase,
  parentBody,
} from "./documents/replication-hook.ts";
import { type Endpoint, EndpointError } from "./endpoints/endpoint.ts";
import type { Endpoints } from "./endpoints/endpoints.ts";
import { classifyFailure, describeFailure } from "./failures/failure.ts";
import type { JobEntry } from "./job-lists/job-views.ts";
import type { ReplicationFailure } from "./jobs/failing.ts";
import { persistentJobId } from "./jobs/job-data.ts";
import type { StoredLoginGates } from "./logins/stored-login-gates.ts";
import type { Replicator } from "./replicator.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";
import { directionsOf } from "./request/pair.ts";
import { parseEndpoint, type Side } from "./request/parse-endpoint.ts";
import {
  type Members,
  ReplicationInvalidError,
  replicationMembers,
} from "./request/parse-fields.ts";
import { parseReplication, replicationFaults } from "./request/parse-replication.ts";
import type { EndpointAddress, Replication } from "./request/replication.ts";
import { type ReplicationIdContext, replicationId } from "./request/replication-id.ts";
import { readFilterCode } from "./run/filter-code.ts";

/** Time limit per endpoint. */
const ENDPOINT_MS_MAX = 5_000;
/**
 * Time limit of a check. Equal to the time limit per endpoint, because both endpoints and the
 * filter are requested concurrently.
 */
export const CHECK_MS_MAX = ENDPOINT_MS_MAX;
/** Maximum number of concurrent checks per node. Each check can hold two connections. */
const CHECKS_MAX = 8;
/** Maximum number of concurrent checks per user, except for admins. */
const USER_CHECKS_MAX = 2;

/**
 * State of an endpoint:
 * - open: exists and is accessible
 * - new: does not exist, and would be created
 * - failed: could not be opened; a run would fail with this error
 */
export type EndpointCheck =
  | {
      readonly kind: "open";
      /**
       * Number of changes in the database; undefined if unknown, or if the job only writes to it.
       */
      readonly changes: number | undefined;
    }
  | { readonly kind: "new" }
  | {
      readonly kind: "failed";
      readonly failure: ReplicationFailure;
      readonly class: FailureClass;
    };

export interface ReplicationCheck {
  /** Reason why the document would be rejected, if any. */
  readonly refusal: ReplicationFailure | undefined;
  /** All errors in the document's members. A write reports only the first error. */
  readonly faults: readonly string[];
  /** Whether the edit would create a document, but its id is already in use. */
  readonly isNameTaken: boolean;
  /**
   * Result for the source; undefined if it was not checked, because the document is rejected or the
   * member is invalid.
   */
  readonly source: EndpointCheck | undefined;
  readonly target: EndpointCheck | undefined;
  /** Another job with the same replication id, if any. Only one of the two can run. */
  readonly twin: JobEntry | undefined;
}

export interface ReplicationChecksParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly replicator: Replicator;
  readonly endpoints: Pick<Endpoints, "open">;
  readonly loginGates: Pick<StoredLoginGates, "open">;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
}

/** A document to be checked, its owner, and the options of the check. */
interface Asking {
  readonly members: Members;
  readonly owner: Authority;
  /** Whether to hide from the caller the existence of servers other than CouchDB. */
  readonly conceals: boolean;
  readonly signal: AbortSignal;
}

/** Result of a trial write. */
interface Judged {
  readonly databaseUuid: string;
  readonly refusal: ReplicationFailure | undefined;
  readonly isNameTaken: boolean;
  /**
   * Members in which stored secrets have replaced the masks; undefined if the request is not
   * allowed to use these secrets.
   */
  readonly members: Members | undefined;
}

export class ReplicationChecks {
  readonly #parts: ReplicationChecksParts;
  /** Owners of the checks in progress. */
  readonly #underWay: (string | null)[] = [];

  constructor(parts: ReplicationChecksParts) {
    this.#parts = parts;
  }

  /** Checks the edit that `writer` would make. Throws a ChecksBusyError. */
  async check(
    databaseName: string,
    edit: InteractiveEdit,
    writer: WriteContext,
    signal: AbortSignal,
  ): Promise<ReplicationCheck> {
    const asker = ownerKey(authorityOf(writer));
    const own = this.#underWay.filter((owner) => owner === asker).length;
    const isBusy = !writer.isAdmin && own >= USER_CHECKS_MAX;
    if (isBusy || this.#underWay.length >= CHECKS_MAX) throw new ChecksBusyError();
    this.#underWay.push(asker);
    try {
      return await this.#check(databaseName, edit, writer, signal);
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(asker), 1);
    }
  }

  async #check(
    databaseName: string,
    edit: InteractiveEdit,
    writer: WriteContext,
    signal: AbortSignal,
  ): Promise<ReplicationCheck> {
    const { config } = this.#parts;
    const { members, refusal, isNameTaken, databaseUuid } = await this.#judge(
      databaseName,
      edit,
      writer,
    );
    const judged = { refusal, isNameTaken };
    if (members === undefined) {
      return { ...judged, faults: [], source: undefined, target: undefined, twin: undefined };
    }
    const faults = replicationFaults(members, config);
    const owner = ownerOfJob(members, writer);
    const asking: Asking = { members, owner, conceals: !writer.isAdmin, signal };
    const [source, target, found] = await Promise.all([
      this.#sourceOf(asking),
      this.#targetOf(asking),
      faults.length > 0
        ? undefined
        : this.#twinOf(parseReplication(members, config), owner, {
            ownJobId: persistentJobId(databaseUuid, edit.id),
            signal,
          }),
    ]);
    const isVisible = found !== undefined && maySee(writer, found, databaseName);
    return { ...judged, faults, source, target, twin: isVisible ? found : undefined };
  }

  /** Tries to write the document in a transaction that is then aborted. */
  async #judge(name: string, edit: InteractiveEdit, writer: WriteContext): Promise<Judged> {
    const { kv, databases } = this.#parts;
    let judged: Judged | undefined;
    try {
      await kv.transact(async (tx) => {
        const database = await databases.open(tx, name);
        const unmasked = withStoredSecrets(edit.body, await parentBody(tx, database, edit));
        const seen = await database.seenBy(tx, writer);
        const isNameTaken = edit.parent === undefined && (await isThere(tx, seen, edit.id));
        const outcome = await database.write(tx, edit, writer);
        const refusal = refusalOf(name, isWritten(outcome) ? undefined : writeRefusal(outcome));
        // A user who is not allowed to write the document must not be able to make this node
        // contact the document's endpoints.
        const mayAsk = unmasked.kind === "whole" && (writer.isAdmin || refusal === undefined);
        judged = {
          databaseUuid: database.uuid,
          refusal,
          isNameTaken,
          members: mayAsk ? replicationMembers(unmasked.body.text) : undefined,
        };
        throw new DryRunOver();
      });
    } catch (error) {
      if (!(error instanceof DryRunOver)) throw error;
    }
    return judged as Judged;
  }

  async #sourceOf(asking: Asking): Promise<EndpointCheck | undefined> {
    return this.#endpoint("source", asking, async (endpoint, limited) => {
      await endpoint.info(limited);
      const changes = await endpoint.pendingChangeCount(0, limited);
      if (asking.members.pair === true) await checkWritable(endpoint, limited);
      return { kind: "open", changes };
    });
  }

  async #targetOf(asking: Asking): Promise<EndpointCheck | undefined> {
    return this.#endpoint("target", asking, async (endpoint, limited) => {
      try {
        await endpoint.info(limited);
      } catch (error) {
        const isCreated = asking.members.create_target === true && isMissing(error);
        if (!isCreated || isConcealed(endpoint, asking)) throw error;
        return { kind: "new" };
      }
      await checkWritable(endpoint, limited);
      const isRead = asking.members.pair === true;
      const changes = isRead ? await endpoint.pendingChangeCount(0, limited) : undefined;
      return { kind: "open", changes };
    });
  }

  /** Parses an endpoint. Returns undefined if the members contain no valid endpoint. */
  async #endpoint(
    side: Side,
    asking: Asking,
    look: (endpoint: Endpoint, signal: AbortSignal) => Promise<EndpointCheck>,
  ): Promise<EndpointCheck | undefined> {
    const { runtime, kv, loginGates, config } = this.#parts;
    const { clock } = runtime;
    const { members, owner, signal } = asking;
    const address = addressOf(side, members, config);
    if (address === undefined) return undefined;
    const startMs = clock.monotonicMs();
    let opened: Endpoint | undefined;
    // Open the login gate: a user is waiting, and might have corrected the password.
    await kv.transact((tx) => loginGates.open(tx, address, true), { whenUnknown: "retry" });
    try {
      const endpoint = this.#open(address, owner);
      opened = endpoint;
      return await finishWithin(clock, ENDPOINT_MS_MAX, signal, {
        work: (limited) => look(endpoint, limited),
        late: () => {
          const reason = `${endpoint.shownUrl} has not answered within ${ENDPOINT_MS_MAX / 1000} s`;
          return new EndpointError("timeout", reason);
        },
      });
    } catch (error) {
      signal.throwIfAborted();
      const failure = describeFailure(error);
      if (
        opened !== undefined &&
        failure.error !== "egress_denied" &&
        isConcealed(opened, asking)
      ) {
        await clock.sleep(ENDPOINT_MS_MAX - (clock.monotonicMs() - startMs), signal);
        return unrecognized(opened);
      }
      return { kind: "failed", failure, class: classifyFailure(error) };
    }
  }

  /** Opens an endpoint as a run does, but without retries. */
  #open(address: EndpointAddress, owner: Authority): Endpoint {
    const { endpoints, config } = this.#parts;
    return endpoints.open(address, { ...valuesNow(config.options), retriesPerRequest: 0 }, owner);
  }

  /**
   * Returns another job with the same replication id, if any. Also returns undefined if the filter
   * cannot be read from the source.
   */
  async #twinOf(
    replication: Replication,
    owner: Authority,
    { ownJobId, signal }: { readonly ownJobId: string; readonly signal: AbortSignal },
  ): Promise<JobEntry | undefined> {
    const { runtime, replicator, ids } = this.#parts;
    const limit = { clock: runtime.clock, timeoutMs: ENDPOINT_MS_MAX };
    const open = () => this.#open(replication.source, owner);
    let filterCode: string | undefined;
    try {
      filterCode = await readFilterCode(replication, open, limit, signal);
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
    for (const direction of directionsOf(replication)) {
      const found = await replicator.find(replicationId(ids, direction, filterCode).id);
      if (found !== undefined && found.jobId !== ownJobId) return found;
    }
    return undefined;
  }
}

/** Sends the request that a run sends before each write. It fails if the account has no access. */
async function checkWritable(endpoint: Endpoint, signal: AbortSignal): Promise<void> {
  await endpoint.missingRevisions(new Map(), signal, { once: true });
}

/**
 * Whether to conceal that the server exists. If it were disclosed, users could scan hosts and ports
 * that only this node can reach.
 */
function isConcealed({ isRecognized }: Endpoint, { conceals }: Asking): boolean {
  return conceals && isRecognized === false;
}

/**
 * Returns the failure to show if no CouchDB was recognized. It is deliberately the same for closed
 * ports, timeouts and other services.
 */
function unrecognized({ shownUrl }: Endpoint): EndpointCheck {
  const failure = { error: "unreachable", reason: `no CouchDB server responds at ${shownUrl}` };
  return { kind: "failed", failure, class: "unreachable" };
}

/**
 * Whether the caller is allowed to see the job: the caller owns the job, or the job's document is
 * in the database that the caller is writing to.
 */
function maySee(writer: WriteContext, { data }: JobEntry, databaseName: string): boolean {
  if (writer.isAdmin || data.document?.database === databaseName) return true;
  return ownerKey(data) === ownerKey(authorityOf(writer));
}

/** Thrown to abort the transaction of a dry run. */
class DryRunOver extends Error {
  constructor() {
    super("Dry run: nothing is written");
  }
}

function refusalOf(
  databaseName: string,
  refusal: ReplicationFailure | undefined,
): ReplicationFailure | undefined {
  if (refusal !== undefined || isReplicatorDatabase(databaseName)) return refusal;
  const reason = `${databaseName} is not a replicator database: its name must be _replicator or end in /_replicator`;
  return { error: "not_a_replicator", reason };
}

async function isThere(tx: ReadTransaction, database: Database, id: string): Promise<boolean> {
  return (await database.documents.read(tx, id))?.deleted === false;
}

/** Returns the user whose rights a new job will have. */
function ownerOfJob({ owner: named }: Members, writer: WriteContext): Authority {
  const userName = ownerOnceWritten(named, writer);
  const own = authorityOf(writer);
  return userName === writer.userName ? own : { ...own, userName, vouched: undefined };
}

function addressOf(
  side: Side,
  members: Members,
  { protocols }: ReplicatorConfig,
): EndpointAddress | undefined {
  try {
    return parseEndpoint(side, members, protocols);
  } catch (error) {
    if (error instanceof ReplicationInvalidError) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "db_not_found";
}
