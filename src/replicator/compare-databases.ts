/** Whether two databases hold the same: every document, every leaf revision, every attachment. */
import { parseWireDocument } from "../protocol/index.ts";
import type { RevisionsOfDocument } from "./copy-batch.ts";
import type { Endpoint } from "./endpoint.ts";

/** Documents read at once to compare attachments. */
const READ_ROWS_MAX = 200;
/** Differences that are named; the rest is only counted. */
const NAMED_MAX = 100;

export interface Comparison {
  readonly documentCount: number;
  readonly leafCount: number;
  readonly attachmentCount: number;
  readonly differenceCount: number;
  /** The first differences, in words. */
  readonly differences: readonly string[];
}

/** Tells `onDifference` of documents that the target lacks leaves of. Reads both changes feeds, then the documents with attachments of both sides. */
export async function compareDatabases(
  source: Endpoint,
  target: Endpoint,
  signal: AbortSignal,
  onDifference: (document: RevisionsOfDocument) => void = () => {},
): Promise<Comparison> {
  const [sourceLeaves, targetLeaves] = await Promise.all([
    readLeaves(source, signal),
    readLeaves(target, signal),
  ]);
  const differences: string[] = [];
  let leafCount = 0;
  for (const [id, leaves] of sourceLeaves) {
    leafCount += leaves.length;
    const others = targetLeaves.get(id);
    if (others === undefined) {
      differences.push(`${id} is not on the target`);
      onDifference({ id, revisions: leaves });
      // The winner stands first: sides that choose another one differ.
    } else if (leaves[0] !== others[0] || leaves.toSorted().join() !== others.toSorted().join()) {
      differences.push(`${id} has ${leaves.join(", ")}, and on the target ${others.join(", ")}`);
      onDifference({ id, revisions: leaves });
    }
  }
  for (const id of targetLeaves.keys()) {
    if (!sourceLeaves.has(id)) differences.push(`${id} is only on the target`);
  }
  const attachments = await compareAttachments(source, target, sourceLeaves, signal);
  differences.push(...attachments.differences);
  return {
    documentCount: sourceLeaves.size,
    leafCount,
    attachmentCount: attachments.count,
    differenceCount: differences.length,
    differences: differences.slice(0, NAMED_MAX),
  };
}

type Leaves = ReadonlyMap<string, readonly string[]>;

async function readLeaves(endpoint: Endpoint, signal: AbortSignal): Promise<Leaves> {
  const leaves = new Map<string, readonly string[]>();
  const request = {
    since: 0,
    continuous: false,
    selection: { kind: "all" },
    winningRevisionsOnly: false,
  } as const;
  for await (const items of endpoint.changes(request, signal)) {
    for (const item of items) {
      if (item.kind === "change") leaves.set(item.change.id, item.change.revisions);
    }
  }
  return leaves;
}

async function compareAttachments(
  source: Endpoint,
  target: Endpoint,
  leaves: Leaves,
  signal: AbortSignal,
): Promise<{ count: number; differences: string[] }> {
  const revisions = [...leaves].flatMap(([id, ids]) => ids.map((revision) => ({ id, revision })));
  const differences: string[] = [];
  let count = 0;
  for (let start = 0; start < revisions.length; start += READ_ROWS_MAX) {
    const page = revisions.slice(start, start + READ_ROWS_MAX);
    const requests = page.map((row) => ({ ...row, ancestors: [row.revision] }));
    const read = await source.readRevisions(requests, signal);
    for (const [index, row] of requests.entries()) {
      if (read?.[index]?.kind === "documents") continue;
      const [here, there] = await Promise.all([
        readDigests(source, row, signal),
        readDigests(target, row, signal),
      ]);
      count += here.size;
      for (const [name, digest] of here) {
        if (there.get(name) === digest) continue;
        const found = there.get(name) ?? "nothing";
        differences.push(`${row.id}/${name} has ${digest}, and on the target ${found}`);
      }
      for (const name of there.keys()) {
        if (!here.has(name)) differences.push(`${row.id}/${name} is only on the target`);
      }
    }
  }
  return { count, differences };
}

/** Attachments with their digests. The revision counts as its own ancestor, so no bytes are sent. */
async function readDigests(
  endpoint: Endpoint,
  request: {
    readonly id: string;
    readonly revision: string;
    readonly ancestors: readonly string[];
  },
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const digests = new Map<string, string>();
  await endpoint.readRevision(
    request,
    async ({ text }) => {
      const document = parseWireDocument(text);
      if (document.revision === request.revision) {
        for (const { name, digest } of document.attachments) digests.set(name, digest ?? "");
      }
    },
    signal,
  );
  return digests;
}
