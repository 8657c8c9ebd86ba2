/**
 * `tandem move verify`: shows the progress of the replications taken over from CouchDB. If a
 * replication has caught up, its target is compared with its source.
 */
import { printJson } from "../../base/index.ts";
import type { Job } from "../../contract/index.ts";
import {
  compareDatabases,
  describeFailure,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  replicationMembers,
} from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { jobPathOf, type Members, type StoredDocument } from "./replicator-server.ts";
import type { Outcome, StepParts } from "./steps.ts";

export async function* verifyMove(parts: StepParts, database: string): AsyncGenerator<Outcome> {
  const { from, here, only } = parts;
  let left = parts.limit;
  for await (const page of here.pages(database)) {
    const places = await from.places(
      database,
      page.map(({ id }) => id),
    );
    for (const [index, document] of page.entries()) {
      if (places[index]?.kind === "missing" || only?.has(document.id) === false) continue;
      if (left-- === 0) return;
      yield { database, id: document.id, ...(await verifyOne(parts, database, document)) };
    }
  }
}

type Finding = Omit<Outcome, "database" | "id">;

async function verifyOne(
  parts: StepParts,
  database: string,
  { id, body }: StoredDocument,
): Promise<Finding> {
  const job = (await parts.here.askIfThere("GET", jobPathOf(database, id))) as Job | undefined;
  if (job === undefined) return { outcome: "no job", isProblem: true };
  const waits = whyNotArrived(job);
  if (waits !== undefined) return { outcome: shownState(job), reason: waits, isProblem: true };
  return compareCopy(parts, body, job);
}

/** Reason why a job cannot make a complete copy; undefined if it can. */
export function whyNotArrived(job: Job): string | undefined {
  if (job.paused) return "it is not copied until `tandem move start` or `tandem jobs resume`";
  if (job.left_behind > 0) return `${counted(job.left_behind, "document")} failed`;
  if (job.last_failure !== null) return `${job.last_failure.error}: ${job.last_failure.reason}`;
  if (job.state === "completed" || (job.state === "running" && job.pending === 0)) return undefined;
  if (job.state === "running") {
    const left =
      job.pending === null ? "an unknown number of changes" : counted(job.pending, "change");
    const lag = job.lag_sec === null ? "" : `, ${job.lag_sec} s behind the source`;
    return `still copying: ${left} to go${lag}`;
  }
  return "the copy is not complete yet";
}

async function compareCopy(
  { connections, signal }: StepParts,
  body: Members,
  job: Job,
): Promise<Finding> {
  const outcome = shownState(job);
  try {
    const replication = parseReplication(
      replicationMembers(printJson(body)),
      REPLICATOR_CONFIG_DEFAULT,
    );
    if (!isWhole(replication)) {
      return { outcome, reason: "copies only part of the source; not compared", isProblem: false };
    }
    const source = connections.open(replication, "source");
    const target = connections.open(replication, "target");
    let lackingCount = 0;
    await compareDatabases(source, target, signal, {
      difference: () => {},
      // Documents that exist only on the target do not make the copy incomplete.
      lacking: async (documents) => {
        lackingCount += documents.length;
      },
    });
    if (lackingCount === 0) return { outcome, reason: "the target is complete", isProblem: false };
    return {
      outcome,
      reason: `the target lacks ${counted(lackingCount, "document")}`,
      isProblem: true,
    };
  } catch (error) {
    const { error: name, reason } = describeFailure(error);
    return { outcome, reason: `not compared: ${name}: ${reason}`, isProblem: true };
  }
}

function isWhole(replication: Replication): boolean {
  const { selection, omissions, sinceSequence, winningRevisionsOnly } = replication;
  const copiesAll = omissions === undefined && sinceSequence === undefined && !winningRevisionsOnly;
  return selection.kind === "all" && copiesAll;
}

function shownState({ state, paused }: Job): string {
  return paused ? "paused" : state;
}
