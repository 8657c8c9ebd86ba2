/**
 * `tandem conflicts`: lists the documents with conflicts in a database of any CouchDB server. Reads
 * all changes with their leaves. A changes feed does not report which leaves are deleted, so each
 * document with several leaves is then read.
 */
import type { JsonText } from "../../base/index.ts";
import {
  type ChangedDocument,
  type Endpoint,
  isChange,
  parseReplication,
  type RevisionRequest,
  type SourceSequence,
  type StreamedDocument,
  sequenceText,
} from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { reportError } from "../terminal/describe-error.ts";
import { quoted } from "../terminal/quoted.ts";
import { printable } from "../terminal/table.ts";
import { type ConnectionFlags, openConnections } from "./command-connections.ts";
import { checkUrls, endpointOf, withLoginAdvice } from "./endpoint-credentials.ts";

interface ConflictsFlags extends ConnectionFlags {
  readonly since?: string;
  readonly authFile?: string;
}

/** A document with its undeleted leaves, winner first. */
interface Conflict {
  readonly id: string;
  readonly winner: string;
  readonly conflicts: readonly string[];
}

/** Maximum number of leaves in one request. */
const LEAVES_MAX = 50;

/**
 * Lists the conflicts. Sets exit code 1 if there are any, or the code for the error if reading
 * fails.
 */
export async function listConflicts(url: string, flags: ConflictsFlags): Promise<void> {
  const connections = openConnections(flags);
  const { authFile } = flags;
  const side = { name: "SOURCE", url, authFile, authOption: "--auth-file" } as const;
  let since: SourceSequence = flags.since ?? 0;
  let documentCount = 0;
  let conflictCount = 0;
  try {
    checkUrls({ URL: url });
    const source = await endpointOf(side);
    const replication = parseReplication({ source, target: source });
    const endpoint = connections.open(replication, "source");
    const { signal } = new AbortController();
    const request = {
      since,
      continuous: false,
      selection: replication.selection,
      winningRevisionsOnly: false,
    };
    for await (const items of endpoint.changes(request, signal)) {
      const changes = items.filter(isChange);
      for await (const conflict of conflictsIn(endpoint, changes, signal)) {
        conflictCount++;
        process.stdout.write(flags.json === true ? jsonLine(conflict) : textLine(conflict));
      }
      documentCount += changes.length;
      since = items.at(-1)?.sequence ?? since;
    }
    process.stdout.write(
      flags.json === true
        ? jsonLine({ documents: documentCount, conflicts: conflictCount, since })
        : `${counted(documentCount, "document")} read: ${counted(conflictCount, "has conflicts", "have conflicts")}\n`,
    );
    process.exitCode = conflictCount === 0 ? 0 : 1;
  } catch (error) {
    reportError(await withLoginAdvice(error, { source: side }));
    if (documentCount > 0) {
      process.stderr.write(`tandem: continue with --since ${quoted(sequenceText(since))}\n`);
    }
  } finally {
    await connections.close();
  }
}

async function* conflictsIn(
  endpoint: Endpoint,
  changes: readonly ChangedDocument[],
  signal: AbortSignal,
): AsyncGenerator<Conflict> {
  const branched = changes.filter(({ isDeleted, revisions }) => !isDeleted && revisions.length > 1);
  const leaves = branched.flatMap(({ id, revisions }) =>
    revisions.map((revision) => ({ id, revision, ancestors: [] })),
  );
  const live = new Map<string, string[]>(branched.map(({ id }) => [id, []]));
  for (let from = 0; from < leaves.length; ) {
    const asked = leaves.slice(from, from + LEAVES_MAX);
    const results = await endpoint.reader.readRevisions(asked, signal);
    const requests = asked.slice(0, results?.length);
    from += requests.length;
    for (const [index, request] of requests.entries()) {
      const result = results?.[index];
      const texts =
        result?.kind === "documents"
          ? result.documents.map(({ text }) => text)
          : await readAlone(endpoint, request, signal);
      // Ignores deleted leaves. If a requested leaf was superseded in the meantime, the server
      // sends the leaves that succeeded it.
      if (texts.some((text) => !isDeleted(text))) live.get(request.id)?.push(request.revision);
    }
  }
  for (const [id, revisions] of live) {
    const [winner, ...conflicts] = revisions.sort(compareRevisions);
    if (winner !== undefined && conflicts.length > 0) yield { id, winner, conflicts };
  }
}

/** Reads a single leaf, for servers that cannot send several leaves in one response. */
async function readAlone(
  endpoint: Endpoint,
  request: RevisionRequest,
  signal: AbortSignal,
): Promise<JsonText[]> {
  const texts: JsonText[] = [];
  const consume = async ({ text, attachments }: StreamedDocument): Promise<void> => {
    texts.push(text);
    // Attachments must be read to the end.
    for await (const { body } of attachments) for await (const _ of body);
  };
  await endpoint.reader.readRevision(request, consume, signal);
  return texts;
}

function isDeleted(text: JsonText): boolean {
  return (JSON.parse(text) as { readonly _deleted?: unknown })._deleted === true;
}

/** Puts CouchDB's winner first: the highest generation, then the highest hash. */
function compareRevisions(left: string, right: string): number {
  const generations = Number.parseInt(right, 10) - Number.parseInt(left, 10);
  return generations || (left < right ? 1 : -1);
}

function textLine({ id, winner, conflicts }: Conflict): string {
  return `${printable(id)}: winner ${printable(winner)}, conflicts ${printable(conflicts.join(", "))}\n`;
}

function jsonLine(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
