/** Compares two databases by URL, with the program's own comparison. */
import { openConnections } from "../../src/cli/connections.ts";
import { type Comparison, compareDatabases, parseReplication } from "../../src/replicator/index.ts";

export async function compare(source: string, target: string): Promise<Comparison> {
  const connections = openConnections("Tandem tests");
  try {
    const replication = parseReplication({ source, target });
    return await compareDatabases(
      connections.open(replication, "source"),
      connections.open(replication, "target"),
      new AbortController().signal,
    );
  } finally {
    await connections.close();
  }
}
