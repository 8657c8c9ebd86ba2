/**
 * Invariants of replications that hold in the store at any time, and the content that is compared
 * between databases.
 */
import type {
  AttachmentStore,
  Database,
  DatabaseRegistry,
  Document,
} from "../../../src/databases/index.ts";
import type { Jobs } from "../../../src/jobs/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../../src/kv/index.ts";
import { type FailureLists, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { decodeJob } from "../../../src/replicator/jobs/job-data-record.ts";
import { openIfExists } from "./scene.ts";
import type { Pair } from "./topology.ts";

/** A replication, together with the id of its checkpoints. */
export interface CheckedLink extends Pair {
  readonly baseId: string;
  selects(documentId: string): boolean;
}

export interface CheckedParts {
  readonly databases: DatabaseRegistry;
  readonly failureLists: FailureLists;
}

const ALL = { limit: 100_000 };

/**
 * Checks the checkpoint rule: no checkpoint passes a change that is neither on the target nor on
 * the failure list.
 */
export async function checkCheckpoints(
  tx: ReadTransaction,
  { databases, failureLists }: CheckedParts,
  links: readonly CheckedLink[],
  removed: ReadonlySet<string>,
): Promise<string[]> {
  const problems: string[] = [];
  for (const link of links) {
    const source = await openIfExists(tx, databases, link.source);
    const target = await openIfExists(tx, databases, link.target);
    if (source === undefined || target === undefined) continue;
    const listed = await readListed(tx, failureLists, link.baseId);
    // If a database was deleted, a checkpoint on the other side might refer to the deleted
    // database. Such a checkpoint does not count, because a checkpoint is valid only if both sides
    // have it.
    const sides = [
      ...(removed.has(link.target) ? [] : [source]),
      ...(removed.has(link.source) ? [] : [target]),
    ];
    for (const side of sides) {
      const sequence = await readCheckpoint(tx, side, link.baseId);
      const lacking =
        sequence === undefined ? [] : await passedRevisions(tx, source, target, sequence);
      for (const [id, revision] of lacking) {
        if (!link.selects(id) || listed.has(`${id} ${revision}`)) continue;
        problems.push(`${link.source} → ${link.target}: ${sequence} passes ${id} ${revision}`);
      }
    }
  }
  return problems;
}

/** Checks exclusivity: at most one of the jobs with the same replication runs. */
export async function checkOwners(tx: ReadTransaction, jobs: Jobs): Promise<string[]> {
  const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
  const running = new Map<string, string>();
  const problems: string[] = [];
  for (const job of entries) {
    const { id, state } = job;
    const { history, replicationId } = decodeJob(job);
    const hasBegun = state === "running" && history[0]?.type === "started";
    if (!hasBegun || replicationId === undefined) continue;
    const other = running.get(replicationId);
    if (other !== undefined) problems.push(`${other} and ${id} both run ${replicationId}`);
    running.set(replicationId, id);
  }
  return problems;
}

/** Returns the sequence in the replication log on this side. */
async function readCheckpoint(
  tx: ReadTransaction,
  database: Database,
  baseId: string,
): Promise<string | undefined> {
  const log = await database.local.read(tx, `_local/${baseId}`);
  return log && (JSON.parse(log.body.text).source_last_seq as string);
}

async function readListed(
  tx: ReadTransaction,
  failureLists: FailureLists,
  baseId: string,
): Promise<ReadonlySet<string>> {
  const { entries } = await failureLists.page(tx, baseId, ALL);
  return new Set(entries.map(({ id, revision }) => `${id} ${revision}`));
}

/** Returns the changes up to `sequence` that the target lacks, each as an id and a revision. */
async function passedRevisions(
  tx: ReadTransaction,
  source: Database,
  target: Database,
  sequence: string,
): Promise<[string, string][]> {
  const [all, after] = await Promise.all([
    source.changes.page(tx, ALL),
    source.changes.page(tx, { ...ALL, since: sequence }),
  ]);
  const ahead = new Set(after.entries.map(({ id }) => id));
  const asked = all.entries
    .filter(({ id }) => !ahead.has(id))
    .map(({ id, leaves }) => [id, leaves.map(({ revision }) => revision)] as const);
  const answers = await target.documents.missingRevisions(tx, asked);
  return answers.flatMap(({ missing }, index) =>
    missing.map((revision): [string, string] => [asked[index]?.[0] as string, revision]),
  );
}

/**
 * Returns revision, body and attachments of each leaf of each document. The keys consist of id and
 * revision.
 */
export async function contentOf(
  tx: ReadTransaction,
  database: Database,
  selects: (documentId: string) => boolean,
): Promise<ReadonlyMap<string, string>> {
  const { entries } = await database.changes.page(tx, ALL);
  const content = new Map<string, string>();
  for (const { id } of entries.filter((change) => selects(change.id))) {
    for (const document of await database.documents.readLeaves(tx, id)) {
      content.set(`${id} ${document.revision}`, shown(document));
    }
  }
  return content;
}

function shown({ deleted, body, attachments }: Document): string {
  const stubs = attachments.map(({ name, contentType, digest, length, revisionPosition }) =>
    JSON.stringify([name, contentType, digest, length, revisionPosition]),
  );
  // Compares members rather than text, because a server can serialize a body differently.
  const members = Object.entries(JSON.parse(body.text)).sort();
  return JSON.stringify([deleted, members, stubs.toSorted()]);
}

/**
 * Returns whether a database has a revision, as a leaf or as an ancestor. `text` consists of the
 * document's id and the revision.
 */
export async function isPast(
  tx: ReadTransaction,
  database: Database,
  text: string,
): Promise<boolean> {
  const [id = "", revision = ""] = text.split(" ");
  const [answer] = await database.documents.missingRevisions(tx, [[id, [revision]]]);
  return answer?.missing.length === 0;
}

/** Compares the bytes of all attachments with their digests. */
export async function checkAttachments(
  kv: KeyValueStore,
  attachments: AttachmentStore,
  database: Database,
  md5: (bytes: Uint8Array) => Uint8Array,
): Promise<string[]> {
  const problems: string[] = [];
  const documents = await kv.read(async (tx) => {
    const { entries } = await database.changes.page(tx, ALL);
    return Promise.all(entries.map(({ id }) => database.documents.readLeaves(tx, id)));
  });
  for (const { id, revision, attachments: stored } of documents.flat()) {
    for (const attachment of stored) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of attachments.read(database, attachment, { decoded: false })) {
        chunks.push(chunk);
      }
      const digest = `md5-${Buffer.from(md5(Buffer.concat(chunks))).toString("base64")}`;
      if (digest === attachment.digest) continue;
      problems.push(`${database.name}: ${id} ${revision} has other bytes as ${attachment.name}`);
    }
  }
  return problems;
}

/** Compares the counters of a database with its documents. */
export async function checkCounters(tx: ReadTransaction, database: Database): Promise<string[]> {
  const [info, { entries }] = await Promise.all([
    database.info(tx),
    database.changes.page(tx, ALL),
  ]);
  const counted = entries.filter(({ deleted }) => !deleted).length;
  const deletedCount = entries.length - counted;
  if (info.documentCount === counted && info.deletedDocumentCount === deletedCount) return [];
  const { documentCount, deletedDocumentCount } = info;
  return [
    `${database.name} counts ${documentCount} and ${deletedDocumentCount} deleted, and has ${counted} and ${deletedCount}`,
  ];
}
