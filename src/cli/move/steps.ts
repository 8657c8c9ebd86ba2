/**
 * The steps of a move, document by document. Each step first checks the state on both servers and
 * continues from there, so that an interrupted step can be repeated.
 *
 *   take    copies documents from the old server unchanged, with their revisions, and pauses their
 *           jobs here
 *   stop    deletes the documents on the old server, since CouchDB has no other way to end a job;
 *           `back` can restore them
 *   start   resumes jobs here that the old server no longer runs
 *   back    pauses jobs here, writes their documents to the old server, and deletes them here
 */

import { setTimeout as sleep } from "node:timers/promises";
import { objectOf } from "../../base/index.ts";
import type { Job, JobPage } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { AnswerError } from "../server/server-client.ts";
import { type PlannedDocument, type PlanParts, planPage, revisionsOf } from "./plan.ts";
import {
  type ActiveJobs,
  hasEndedThere,
  jobPathOf,
  type Members,
  PAGE_ROWS_MAX,
  type Place,
  pathOf,
  type ReplicatorServer,
  type StoredDocument,
} from "./replicator-server.ts";

/** Time limit for a server to end a job that was paused or whose document was deleted. */
const ENDING_MS_MAX = 60_000;
const POLL_MS = 250;

const TAKEN = "taken over from ";

/** Outcome for a document. `isProblem`: whether an operator has to act. */
export interface Outcome {
  readonly database: string;
  readonly id: string;
  readonly outcome: string;
  readonly reason?: string;
  readonly isProblem: boolean;
}

export interface StepParts extends PlanParts {
  /** URL of the old server, without secrets. */
  readonly fromUrl: string;
  /** Ids of the documents to process. Default: all. */
  readonly only: ReadonlySet<string> | undefined;
  /** Maximum number of documents that the step changes. */
  readonly limit: number;
  /** Whether jobs are resumed without checking whether the old server still runs them. */
  readonly anyway: boolean;
}

export type Step = (parts: StepParts, database: string) => AsyncGenerator<Outcome>;

export async function* take(parts: StepParts, database: string): AsyncGenerator<Outcome> {
  let left = parts.limit;
  for await (const page of parts.from.pages(database)) {
    const planned = await planPage(parts, database, chosen(parts, page));
    for (const { id, taking } of planned) {
      if (taking.kind === "refused") yield problem(database, id, "refused", taking.reason);
      if (taking.kind === "here") yield done(database, id, "here already");
    }
    const wanted = planned
      .filter(({ taking: { kind } }) => kind === "take" || kind === "update")
      .slice(0, left);
    left -= wanted.length;
    if (wanted.length > 0) yield* copyHere(parts, database, wanted);
    if (left === 0) return;
  }
}

async function* copyHere(
  { from, here, fromUrl }: StepParts,
  database: string,
  wanted: readonly PlannedDocument[],
): AsyncGenerator<Outcome> {
  await makeDatabase(from, here, database);
  const docs = await from.withHistory(database, wanted);
  const query = new URLSearchParams({ paused: "true", why: reasonOf(TAKEN, fromUrl) });
  const path = `${pathOf(database)}/_bulk_docs?${query}`;
  const failures = (await here.ask("POST", path, { docs, new_edits: false })) as readonly Members[];
  const reasons = new Map(failures.map(({ id, error, reason }) => [id, `${error}: ${reason}`]));
  const lacking = await here.lacking(database, wanted);
  for (const { id, hasEnded } of wanted) {
    if (lacking.has(id)) {
      yield problem(
        database,
        id,
        "refused",
        reasons.get(id) ?? "it was changed on the old server in the meantime",
      );
    } else yield done(database, id, hasEnded ? "taken, has ended" : "taken, paused");
  }
}

/**
 * Creates the database with the security object that it has on the old server. `_replicator` always
 * exists on the new one.
 */
async function makeDatabase(
  from: ReplicatorServer,
  here: ReplicatorServer,
  database: string,
): Promise<void> {
  if ((await here.askIfThere("GET", pathOf(database))) !== undefined) return;
  const security = await from.ask("GET", `${pathOf(database)}/_security`);
  await here.ask("PUT", pathOf(database));
  await here.ask("PUT", `${pathOf(database)}/_security`, security);
}

export async function* stop(parts: StepParts, database: string): AsyncGenerator<Outcome> {
  const { from, here } = parts;
  const active = await from.activeJobs();
  let left = parts.limit;
  for await (const whole of from.pages(database)) {
    const page = chosen(parts, whole);
    const lacking = await here.lacking(database, page);
    const places = await here.places(
      database,
      page.map(({ id }) => id),
    );
    for (const [index, document] of page.entries()) {
      if (left === 0) return;
      const { id } = document;
      const reason = whyNotStopped(document, places[index], lacking.has(id));
      const scheduled = await from.scheduled(database, id);
      // Checks the scheduler as well as the document. A user might have written a final state into
      // the document although the job continues.
      if (hasEndedThere(scheduled) && !active.hasDocument(database, id)) continue;
      if (reason !== undefined) {
        yield problem(database, id, "not stopped", reason);
        continue;
      }
      left--;
      yield await stopOne(from, database, document, scheduled?.id ?? null);
    }
  }
}

function whyNotStopped(
  { body }: StoredDocument,
  place: Place | undefined,
  isLacking: boolean,
): string | undefined {
  if (Array.isArray(body._conflicts))
    return "the document has conflicting revisions; if the winning one were deleted, the replication of another would run";
  if (isLacking || place?.kind !== "stored")
    return "this revision does not exist on the new server; run `take` first";
  return undefined;
}

async function stopOne(
  from: ReplicatorServer,
  database: string,
  { id, rev }: StoredDocument,
  replicationId: string | null,
): Promise<Outcome> {
  try {
    await from.ask("DELETE", `${pathOf(database, id)}?rev=${percentEncode(rev)}`);
  } catch (error) {
    if (!(error instanceof AnswerError && error.status === 409)) throw error;
    return problem(
      database,
      id,
      "not stopped",
      "it was changed on the old server in the meantime; run `take` again",
    );
  }
  const hasEnded = await becomes(async () => {
    if (replicationId === null) return !(await from.activeJobs()).hasDocument(database, id);
    const path = `/_scheduler/jobs/${percentEncode(replicationId)}`;
    const job = (await from.askIfThere("GET", path)) as Members | undefined;
    return job === undefined || job.database !== database || job.doc_id !== id;
  });
  if (hasEnded) return done(database, id, "stopped");
  const reason = "its document is deleted, but its job still runs on the old server";
  return problem(database, id, "not stopped", reason);
}

export async function* start(parts: StepParts, database: string): AsyncGenerator<Outcome> {
  const { from, here, only, anyway, fromUrl } = parts;
  const active = anyway ? undefined : await from.activeJobs();
  let left = parts.limit;
  let bookmark: string | null | undefined;
  while (bookmark !== null) {
    const query = new URLSearchParams({
      database,
      paused: "true",
      limit: String(PAGE_ROWS_MAX),
      ...(bookmark === undefined ? {} : { bookmark }),
    });
    const answer = await here.ask("GET", `/_tandem/jobs?${query}`);
    const page = answer as JobPage;
    bookmark = page.bookmark;
    for (const job of page.jobs) {
      const { doc_id: id } = job;
      if (left === 0) return;
      // `id` is never null here, because jobs selected by database have documents.
      if (id === null || !wasTaken(job) || only?.has(id) === false) continue;
      const reason = active && (await whyNotStarted(from, active, database, id, job.id));
      if (reason !== undefined) {
        yield problem(database, id, "not started", reason);
        continue;
      }
      left--;
      await here.ask("POST", `${jobPathOf(database, id)}/_resume`, {
        why: reasonOf("moved from ", fromUrl),
      });
      yield done(database, id, "started");
    }
  }
}

/** Whether the job was paused by `take`, and not by an operator for another reason. */
function wasTaken({ control: [last] }: Job): boolean {
  return last?.action === "pause" && last.why?.startsWith(TAKEN) === true;
}

async function whyNotStarted(
  from: ReplicatorServer,
  active: ActiveJobs,
  database: string,
  id: string,
  replicationId: string,
): Promise<string | undefined> {
  if (active.hasDocument(database, id)) return "the old server still runs it; run `stop` first";
  if (active.hasReplication(replicationId)) {
    return "another job on the old server runs the same replication";
  }
  const scheduled = await from.scheduled(database, id);
  if (scheduled === undefined || hasEndedThere(scheduled)) return undefined;
  return `its document still exists on the old server (${scheduled.state ?? "not started"}); run stop first`;
}

export async function* back(parts: StepParts, database: string): AsyncGenerator<Outcome> {
  const { from, here } = parts;
  let left = parts.limit;
  for await (const whole of here.pages(database)) {
    const page = chosen(parts, whole);
    const places = await from.places(
      database,
      page.map(({ id }) => id),
    );
    for (const [index, document] of page.entries()) {
      const place = places[index];
      // Skips documents that never existed on the old server.
      if (place === undefined || place.kind === "missing") continue;
      if (left === 0) return;
      left--;
      yield await moveBack(parts, database, document, place);
    }
  }
}

async function moveBack(
  { from, here, fromUrl }: StepParts,
  database: string,
  { id, rev }: StoredDocument,
  place: Exclude<Place, { kind: "missing" }>,
): Promise<Outcome> {
  if (place.kind === "stored" && (await here.lacking(database, [{ id, rev: place.rev }])).has(id)) {
    return problem(
      database,
      id,
      "not moved",
      "the old server has a revision of the document that was not copied here; delete the document on one of the two servers",
    );
  }
  if (place.kind === "deleted" && !(await cameFrom(from, here, database, id))) {
    return done(database, id, "kept, because it did not come from the old server");
  }
  if (!(await pauseHere(here, database, id, reasonOf("moved back to ", fromUrl)))) {
    return problem(database, id, "not moved", "its run here has not ended");
  }
  const path = pathOf(database, id);
  const body = (await here.ask("GET", `${path}?attachments=true`)) as Members;
  if (place.kind === "deleted") await from.ask("PUT", path, writtenBack(body));
  // The run can update the document until the job is paused, so the revision read after that is
  // used.
  await here.ask("DELETE", `${path}?rev=${percentEncode(String(body._rev ?? rev))}`);
  return done(
    database,
    id,
    place.kind === "deleted" ? "moved back" : "deleted here, kept on the old server",
  );
}

/**
 * Whether the document stored here is the one that was deleted on the old server, and not a
 * different document with the same id.
 */
async function cameFrom(
  from: ReplicatorServer,
  here: ReplicatorServer,
  database: string,
  id: string,
): Promise<boolean> {
  const body = (await here.ask("GET", `${pathOf(database, id)}?revs=true`)) as Members;
  return from.knowsAny(database, id, revisionsOf(body));
}

/**
 * Pauses the job of a document here. Returns false if the job still runs after the time limit. A
 * job that has ended or is missing need not be paused.
 */
async function pauseHere(
  here: ReplicatorServer,
  database: string,
  id: string,
  why: string,
): Promise<boolean> {
  const path = jobPathOf(database, id);
  try {
    await here.askIfThere("POST", `${path}/_pause`, { why });
  } catch (error) {
    if (!(error instanceof AnswerError && error.status === 409)) throw error;
  }
  return becomes(async () => {
    const job = (await here.askIfThere("GET", path)) as Members | undefined;
    return job?.state !== "running";
  });
}

/**
 * The document to write back, without members specific to this server. The state of an ended job is
 * kept, so that the job does not run again.
 */
export function writtenBack(body: Members): Members {
  const state = body._replication_state;
  const hasEnded = state === "completed" || state === "failed";
  const kept = Object.entries(body).filter(
    ([name]) => name !== "_rev" && (hasEnded || !name.startsWith("_replication_")),
  );
  return objectOf(kept);
}

/** Polls until the condition holds. Returns false after the time limit. */
async function becomes(isSo: () => Promise<boolean>): Promise<boolean> {
  const endMs = performance.now() + ENDING_MS_MAX;
  while (!(await isSo())) {
    if (performance.now() > endMs) return false;
    await sleep(POLL_MS);
  }
  return true;
}

function chosen(
  { only }: Pick<StepParts, "only">,
  page: readonly StoredDocument[],
): readonly StoredDocument[] {
  return only === undefined ? page : page.filter(({ id }) => only.has(id));
}

/** A reason, truncated to its maximum length. */
function reasonOf(what: string, url: string): string {
  return `${what}${url}`.slice(0, 200);
}

function done(database: string, id: string, outcome: string): Outcome {
  return { database, id, outcome, isProblem: false };
}

function problem(database: string, id: string, outcome: string, reason: string): Outcome {
  return { database, id, outcome, reason, isProblem: true };
}
