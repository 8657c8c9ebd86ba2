/** `tandem verify`: is the copy the same? */
import {
  type Comparison,
  compareDatabases,
  describeFailure,
  parseReplication,
} from "../replicator/index.ts";
import { VERSION } from "../server/index.ts";
import { openConnections } from "./connections.ts";

export async function verify(
  source: string,
  target: string,
  flags: { readonly json?: boolean },
): Promise<void> {
  const connections = openConnections(`Tandem/${VERSION}`);
  try {
    const replication = parseReplication({ source, target });
    const comparison = await compareDatabases(
      connections.open(replication, "source"),
      connections.open(replication, "target"),
      new AbortController().signal,
    );
    if (flags.json === true) process.stdout.write(`${JSON.stringify(comparison)}\n`);
    else process.stdout.write(describe(comparison));
    process.exitCode = comparison.differenceCount === 0 ? 0 : 1;
  } catch (error) {
    const { error: name, reason } = describeFailure(error);
    process.stderr.write(`tandem: ${name}: ${reason}\n`);
    process.exitCode = 2;
  } finally {
    await connections.close();
  }
}

/** What was compared, and what differs. */
export function describe(comparison: Comparison): string {
  const { documentCount, leafCount, attachmentCount, differenceCount, differences } = comparison;
  const compared = `${documentCount} documents, ${leafCount} leaf revisions, ${attachmentCount} attachments compared`;
  if (differenceCount === 0) return `${compared}: the same on both sides\n`;
  return `${compared}: ${differenceCount} differences\n${differences.map((text) => `  ${text}\n`).join("")}`;
}
