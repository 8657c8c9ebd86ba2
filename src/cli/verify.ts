/** `tandem verify`: is the copy the same? And with `--repair`, make it so. */
import {
  BatchCopier,
  type Comparison,
  compareDatabases,
  describeFailure,
  type Endpoint,
  MemoryFailureLog,
  parseReplication,
  type Replication,
  type RevisionsOfDocument,
} from "../replicator/index.ts";
import { VERSION } from "../server/index.ts";
import { type Connections, openConnections } from "./connections.ts";

/** Documents that are repaired at once. */
const REPAIR_ROWS_MAX = 500;

interface VerifyFlags {
  readonly repair?: boolean;
  readonly json?: boolean;
}

interface Sides {
  readonly source: Endpoint;
  readonly target: Endpoint;
}

export async function verify(source: string, target: string, flags: VerifyFlags): Promise<void> {
  const connections = openConnections(`Tandem/${VERSION}`);
  const { signal } = new AbortController();
  try {
    const replication = parseReplication({ source, target });
    const sides = {
      source: connections.open(replication, "source"),
      target: connections.open(replication, "target"),
    };
    const differing: RevisionsOfDocument[] = [];
    const note = (document: RevisionsOfDocument): unknown =>
      flags.repair === true && differing.push(document);
    let comparison = await compareDatabases(sides.source, sides.target, signal, note);
    let repaired:
      | { readonly documentCount: number; readonly failures: readonly unknown[] }
      | undefined;
    if (differing.length > 0) {
      repaired = await repair(connections, replication, sides, differing, signal);
      if (flags.json !== true) process.stdout.write(describe(comparison));
      comparison = await compareDatabases(sides.source, sides.target, signal);
    }
    if (flags.json === true) {
      process.stdout.write(`${JSON.stringify({ ...comparison, ...(repaired && { repaired }) })}\n`);
    } else {
      if (repaired !== undefined) {
        process.stdout.write(`${repaired.documentCount} documents copied again\n`);
      }
      process.stdout.write(describe(comparison));
    }
    process.exitCode = comparison.differenceCount === 0 ? 0 : 1;
  } catch (error) {
    const { error: name, reason } = describeFailure(error);
    process.stderr.write(`tandem: ${name}: ${reason}\n`);
    process.exitCode = 2;
  } finally {
    await connections.close();
  }
}

/** Copies what the target lacks of these documents. What stands only on the target stays: it may be wanted there. */
async function repair(
  { runtime }: Connections,
  { options }: Replication,
  sides: Sides,
  differing: readonly RevisionsOfDocument[],
  signal: AbortSignal,
): Promise<{ documentCount: number; failures: MemoryFailureLog["failures"] }> {
  const failures = new MemoryFailureLog();
  const copier = new BatchCopier(runtime, sides, options, { count: () => {}, failures });
  for (let start = 0; start < differing.length; start += REPAIR_ROWS_MAX) {
    await copier.tryOnce(differing.slice(start, start + REPAIR_ROWS_MAX), signal);
  }
  return { documentCount: differing.length, failures: failures.failures };
}

/** What was compared, and what differs. */
export function describe(comparison: Comparison): string {
  const { documentCount, leafCount, attachmentCount, differenceCount, differences } = comparison;
  const compared = `${documentCount} documents, ${leafCount} leaf revisions, ${attachmentCount} attachments compared`;
  if (differenceCount === 0) return `${compared}: the same on both sides\n`;
  return `${compared}: ${differenceCount} differences\n${differences.map((text) => `  ${text}\n`).join("")}`;
}
