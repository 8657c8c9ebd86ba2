/** Compares two databases, given by their URLs, in the same way as `tandem verify`. */
import { openConnections } from "../../src/library/index.ts";
import {
  type Comparison,
  compareDatabases,
  describeDifference,
  parseReplication,
} from "../../src/replicator/index.ts";

export interface NamedComparison extends Comparison {
  readonly differences: readonly string[];
}

export async function compare(source: string, target: string): Promise<NamedComparison> {
  const connections = openConnections({ userAgent: "Tandem tests" });
  const differences: string[] = [];
  try {
    const replication = parseReplication({ source, target });
    const comparison = await compareDatabases(
      connections.open(replication, "source"),
      connections.open(replication, "target"),
      new AbortController().signal,
      { difference: (difference) => differences.push(describeDifference(difference)) },
    );
    return { ...comparison, differences };
  } finally {
    await connections.close();
  }
}
