/**
 * The plan of a move: the action for each replication document of the old server, and the reason.
 * Reads both servers and changes nothing.
 */
import { forEachConcurrent, printJson } from "../../base/index.ts";
import type { Connections } from "../../library/index.ts";
import { maskCredentials, percentEncode } from "../../protocol/index.ts";
import {
  describeFailure,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  ReplicationInvalidError,
  readFilterCode,
  replicationMembers,
} from "../../replicator/index.ts";
import { type IdMatch, matchIds, type Uuids } from "./match-ids.ts";
import {
  hasEndedThere,
  type Members,
  type Place,
  type ReplicatorServer,
  type ScheduledDocument,
  type StoredDocument,
} from "./replicator-server.ts";

/** Number of documents checked concurrently. */
const QUESTIONS_MAX = 8;

/**
 * Effect of `take` on a document:
 *
 *   take      copies the document, because it does not exist here
 *   update    copies the document again, because it has changed on the old server
 *   here      no effect, because the document already exists here, perhaps changed
 *   refused   no effect, for the stated reason
 */
export type Taking =
  | { readonly kind: "take" | "update" | "here" }
  | { readonly kind: "refused"; readonly reason: string };

export interface PlannedDocument {
  readonly database: string;
  readonly id: string;
  readonly rev: string;
  /** URL without secrets; empty if missing. */
  readonly source: string;
  readonly target: string;
  readonly state: string | null;
  readonly replicationId: string | null;
  readonly match: IdMatch;
  /** Reason why the ids differ or could not be compared. */
  readonly matchReason?: string;
  readonly taking: Taking;
  readonly hasEnded: boolean;
}

export interface PlanParts {
  readonly from: ReplicatorServer;
  readonly here: ReplicatorServer;
  readonly connections: Connections;
  /** The uuids of both servers; requested once, and only if ids are compared. */
  readonly uuids: () => Promise<Uuids>;
  readonly signal: AbortSignal;
}

/** Plans a page of documents of one database. */
export async function planPage(
  parts: PlanParts,
  database: string,
  page: readonly StoredDocument[],
): Promise<readonly PlannedDocument[]> {
  const takings = await takingsOf(parts, database, page);
  const planned: PlannedDocument[] = new Array(page.length);
  const places = page.map((document, index) => ({ document, index }));
  await forEachConcurrent(places, QUESTIONS_MAX, async ({ document, index }) => {
    const scheduled = await parts.from.scheduled(database, document.id);
    const taking = takings[index] as Taking;
    planned[index] = await planOne(parts, database, document, { scheduled, taking });
  });
  return planned;
}

async function planOne(
  parts: PlanParts,
  database: string,
  { id, rev, body }: StoredDocument,
  { scheduled, taking }: { readonly scheduled: ScheduledDocument | undefined; taking: Taking },
): Promise<PlannedDocument> {
  const parsed = parse(body);
  const found =
    typeof parsed === "string"
      ? ({ match: "unknown" } as const)
      : await compareIds(parts, parsed, scheduled?.id ?? null);
  return {
    database,
    id,
    rev,
    source: shownEndpoint(body.source),
    target: shownEndpoint(body.target),
    state: scheduled?.state ?? null,
    replicationId: scheduled?.id ?? null,
    ...found,
    taking: typeof parsed === "string" ? { kind: "refused", reason: parsed } : taking,
    hasEnded: hasEndedThere(scheduled),
  };
}

/** The parsed replication, or the reason why the document is invalid here. */
function parse(body: Members): Replication | string {
  try {
    const replication = parseReplication(
      replicationMembers(printJson(body)),
      REPLICATOR_CONFIG_DEFAULT,
    );
    const local = (["source", "target"] as const).find(
      (side) => replication[side].kind === "local",
    );
    if (local === undefined) return replication;
    return `\`${local}\` is a database name without a server, which would refer to a local database on the new server; replace it with a URL`;
  } catch (error) {
    if (error instanceof ReplicationInvalidError) return error.reason;
    throw error;
  }
}

async function compareIds(
  { connections, uuids, signal }: PlanParts,
  replication: Replication,
  shown: string | null,
): Promise<Pick<PlannedDocument, "match" | "matchReason">> {
  // Without an id from CouchDB there is nothing to compare, so no filter is fetched.
  if (shown === null) return { match: "unknown" };
  const { clock, digests } = connections.runtime;
  const limit = { clock, timeoutMs: REPLICATOR_CONFIG_DEFAULT.stallTimeoutSec * 1000 };
  try {
    const open = () => connections.open(replication, "source");
    const filterCode = await readFilterCode(replication, open, limit, signal);
    const code = filterCode === undefined ? {} : { filterCode };
    const match = matchIds(digests, replication, { shown, ...code }, await uuids());
    if (match !== "other") return { match };
    return { match, matchReason: whyOther(replication) };
  } catch (error) {
    const { error: name, reason } = describeFailure(error);
    return { match: "unknown", matchReason: `the filter cannot be read: ${name}: ${reason}` };
  }
}

function whyOther({ selection, sinceSequence }: Replication): string {
  if (sinceSequence !== undefined) return "since_seq is part of the replication id on this server";
  if (selection.kind === "filter") return "the filter's code differs from that of the running job";
  return "CouchDB computes a different replication id for this document";
}

async function takingsOf(
  { from, here }: PlanParts,
  database: string,
  page: readonly StoredDocument[],
): Promise<readonly Taking[]> {
  // If the database does not exist, all documents are missing.
  if ((await here.askIfThere("GET", `/${percentEncode(database)}`)) === undefined) {
    return page.map((document) => takingOf(document, { kind: "missing" }, true, []));
  }
  const lacking = await here.lacking(database, page);
  const places = await here.places(
    database,
    page.map(({ id }) => id),
  );
  const changed = page.filter(({ id }, index) => lacking.has(id) && isStored(places[index]));
  const histories = new Map(
    (await from.withHistory(database, changed)).map((body) => [body._id, revisionsOf(body)]),
  );
  return page.map((document, index) =>
    takingOf(
      document,
      places[index] as Place,
      lacking.has(document.id),
      histories.get(document.id) ?? [],
    ),
  );
}

/**
 * Decides what `take` does with a document. `history` contains its revisions on the old server, and
 * is read only if the document exists here with a different revision.
 */
export function takingOf(
  { body }: Pick<StoredDocument, "body">,
  place: Place,
  isLacking: boolean,
  history: readonly string[],
): Taking {
  if (Array.isArray(body._conflicts)) {
    return {
      kind: "refused",
      reason: "the document has conflicting revisions on the old server; delete all but one",
    };
  }
  if (!isLacking) {
    if (place.kind === "stored") return { kind: "here" };
    return {
      kind: "refused",
      reason: "the document was copied earlier and has since been deleted on the new server",
    };
  }
  if (place.kind !== "stored") return { kind: "take" };
  if (history.includes(place.rev)) return { kind: "update" };
  return {
    kind: "refused",
    reason:
      "the new server has a different document with this id, or the document was changed on both servers",
  };
}

function isStored(place: Place | undefined): boolean {
  return place?.kind === "stored";
}

/** Revision ids in the `_revisions` of a document. */
export function revisionsOf({ _revisions: revisions }: Members): readonly string[] {
  const { start, ids } = revisions as { readonly start: number; readonly ids: readonly string[] };
  return ids.map((hash, index) => `${start - index}-${hash}`);
}

function shownEndpoint(endpoint: unknown): string {
  const isObject = typeof endpoint === "object" && endpoint !== null;
  const url = isObject ? (endpoint as Members).url : endpoint;
  return typeof url === "string" ? maskCredentials(url) : "";
}
