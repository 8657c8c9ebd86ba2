/**
 * Compares superseded bodies with a naive model after random edits, purges and sweeps. Bodies
 * within their retention time, and no others, can be read with their attachments. A last sweep
 * leaves only the rows of leaves.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { utf8Decode, utf8Encode } from "../../base/index.ts";
import { Subspace } from "../../kv/index.ts";
import { AttachmentStore } from "../attachments/attachment-store.ts";
import type { Database } from "../database.ts";
import type { Attachment, AttachmentEdit, Document, DocumentEdit } from "../document.ts";
import { decodeDocumentRecord } from "../records/document-record.ts";
import { decodeOldBody } from "../records/old-body-record.ts";
import { CONTEXT, interactive, type OpenStore, openStore, replicated } from "../store.fixture.ts";

const IDS = ["d", "e"];
/**
 * Numbers in keys below the subspace of the test's registry: of the database subspace, and of its
 * bodies, attachment lists, references, contents and old bodies.
 */
const [DATABASE, BODY, LIST, REFERENCE, CONTENT, OLD_BODY] = [2, 2, 3, 12, 10, 21];
/** Numbers of the records of documents, deleted ones last. */
const DOCUMENTS = [1, 30];

const id = fc.constantFrom(...IDS);
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("follow" as const),
      id,
      leaf: fc.nat(2),
      deleted: fc.nat(4).map((number) => number === 0),
      attachment: fc.option(fc.constantFrom("one", "two"), { nil: undefined }),
      isLong: fc.boolean(),
    }),
  },
  {
    weight: 6,
    // Paths in a small revision tree (`2-ab` follows `1-a`). Paths therefore overlap, and purged
    // paths are written again.
    arbitrary: fc.record({
      kind: fc.constant("graft" as const),
      id: fc.constant("d"),
      letters: fc.constantFrom(["a"], ["a", "b"], ["a", "b", "c"], ["a", "d"]),
      attachment: fc.option(fc.constantFrom("one", "two"), { nil: undefined }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("purge" as const), id, leaf: fc.nat(2) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("sweep" as const), ageMs: fc.nat(6) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "reclaim" as const }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Written {
  readonly text: string;
  readonly attachment: string | undefined;
  readonly deleted: boolean;
  isSuperseded: boolean;
}

class Model {
  readonly #written = new Map<string, Written>();
  /**
   * The times at which revisions were superseded. Entries of purged revisions are kept: if such a
   * revision is written and superseded again, its first entry determines its age.
   */
  #marks: { readonly key: string; readonly timeMs: number }[] = [];

  note(name: string, revision: string, written: Omit<Written, "isSuperseded">): void {
    this.#written.set(`${name} ${revision}`, { ...written, isSuperseded: false });
  }

  supersede(name: string, revision: string, timeMs: number): void {
    const key = `${name} ${revision}`;
    const written = this.#written.get(key);
    if (written?.deleted === true) this.forget(name, revision);
    if (written === undefined || written.deleted) return;
    written.isSuperseded = true;
    this.#marks.push({ key, timeMs });
  }

  forget(name: string, revision: string): void {
    this.#written.delete(`${name} ${revision}`);
  }

  sweep(beforeMs: number): void {
    for (const { key, timeMs } of this.#marks) {
      if (timeMs < beforeMs && this.of(key)?.isSuperseded === true) this.#written.delete(key);
    }
    this.#marks = this.#marks.filter(({ timeMs }) => timeMs >= beforeMs);
  }

  /** Returns the record for a key. A key is an id and a revision, separated by a space. */
  of(key: string): Written | undefined {
    return this.#written.get(key);
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Opens a store with its model. The clock of the store advances by a millisecond per step. */
async function openTried() {
  let nowMs = 1_000;
  const system = await openStore();
  const runtime = { ...system.runtime, clock: { ...system.runtime.clock, nowMs: () => nowMs } };
  const store = await openStore({ runtime, keepOldBodiesMs: () => 1 });
  const database = await store.read(async (_tx, opened) => opened);
  const attachments = new AttachmentStore({ runtime, kv: store.kv });
  return { store, database, attachments, model: new Model(), clock: { tick: () => ++nowMs } };
}
type Tried = Awaited<ReturnType<typeof openTried>>;

const leavesOf = (store: OpenStore, name: string) =>
  store.read((tx, database) => database.documents.readLeaves(tx, name));

const pathsOf = (leaves: readonly Document[]): Set<string> =>
  new Set(
    leaves.flatMap(({ revisions: { start, hashes } }) =>
      hashes.map((hash, index) => `${start - index}-${hash}`),
    ),
  );

async function editOf(
  { store, database, attachments }: Tried,
  drawn: Extract<Step, { kind: "follow" | "graft" }>,
  text: string,
): Promise<DocumentEdit> {
  const staged: AttachmentEdit[] = [];
  if (drawn.attachment !== undefined) {
    const content = await attachments.stage(database, once(utf8Encode(drawn.attachment)), {});
    staged.push({ kind: "staged", name: "file", contentType: "text/plain", content });
  }
  if (drawn.kind === "graft") {
    const path = drawn.letters.map((_, index) => {
      const letters = drawn.letters.slice(0, drawn.letters.length - index);
      return `${letters.length}-${letters.join("")}`;
    });
    return { ...replicated(drawn.id, path, { body: text }), attachments: staged };
  }
  const leaves = await leavesOf(store, drawn.id);
  const parent = leaves[drawn.leaf % Math.max(1, leaves.length)]?.revision;
  const { deleted } = drawn;
  return { ...interactive(drawn.id, parent, { body: text, deleted }), attachments: staged };
}

async function carryOut(tried: Tried, drawn: Step, number: number): Promise<void> {
  const { store, database, attachments, model, clock } = tried;
  const nowMs = clock.tick();
  if (drawn.kind === "reclaim") {
    await attachments.reclaim(database, { ageMs: 0 });
    return;
  }
  if (drawn.kind === "sweep") {
    await sweepAll(store, nowMs - drawn.ageMs);
    model.sweep(nowMs - drawn.ageMs);
    return;
  }
  const before = await leavesOf(store, drawn.id);
  if (drawn.kind === "purge") {
    const leaf = before[drawn.leaf % Math.max(1, before.length)];
    if (leaf === undefined) return;
    const purges = [{ id: drawn.id, revisions: [leaf.revision] }];
    await store.write((tx, opened) => opened.purge(tx, purges, CONTEXT));
    const kept = pathsOf(await leavesOf(store, drawn.id));
    for (const gone of pathsOf(before)) if (!kept.has(gone)) model.forget(drawn.id, gone);
    return;
  }
  const isLong = drawn.kind === "follow" && drawn.isLong;
  // A long body takes two chunks. All edits of kind `graft` that write the same revision have the
  // same body.
  const text =
    drawn.kind === "graft"
      ? `{"graft":"${drawn.letters.join("")}${drawn.attachment}"}`
      : `{"n":${number},"long":"${"x".repeat(isLong ? 100_000 : 0)}"}`;
  const edit = await editOf(tried, drawn, text);
  const [outcome] = await store.edit(edit);
  const after = await leavesOf(store, drawn.id);
  if (outcome?.kind === "written") {
    const isNew = !before.some(({ revision }) => revision === outcome.revision);
    const isLeaf = after.some(({ revision }) => revision === outcome.revision);
    if (isNew && isLeaf) {
      const { attachment } = drawn;
      model.note(drawn.id, outcome.revision, { text, attachment, deleted: edit.deleted });
    }
  }
  for (const { revision } of before) {
    if (after.some((leaf) => leaf.revision === revision)) continue;
    model.supersede(drawn.id, revision, nowMs);
  }
}

async function sweepAll(store: OpenStore, beforeMs: number): Promise<void> {
  for (let isLast = false; !isLast; ) {
    ({ isLast } = await store.write((tx, database) => database.oldBodies.sweep(tx, beforeMs)));
  }
}

async function expectAsModelled({ store, attachments, database, model }: Tried): Promise<void> {
  for (const name of IDS) {
    const leaves = await leavesOf(store, name);
    const leafRevisions = new Set(leaves.map(({ revision }) => revision));
    for (const revision of pathsOf(leaves)) {
      const [read] = await store.read((tx, opened) =>
        opened.documents.readRevision(tx, name, revision, { superseded: true }),
      );
      if (leafRevisions.has(revision)) continue;
      const expected = model.of(`${name} ${revision}`);
      expect(read?.body.text, `${name} ${revision}`).toBe(expected?.text);
      const [attachment] = read?.attachments ?? [];
      expect(attachment === undefined).toBe(expected?.attachment === undefined);
      if (attachment === undefined) continue;
      expect(await textOf(attachments, database, attachment)).toBe(expected?.attachment);
    }
    const [winner] = leaves;
    if (winner === undefined) continue;
    const statuses = await store.read((tx, opened) =>
      opened.documents.revisionStatuses(tx, name, winner.revision),
    );
    for (const { revision, status } of statuses.slice(1)) {
      expect(status).toBe(model.of(`${name} ${revision}`) === undefined ? "missing" : "available");
    }
  }
}

/** Checks the counted size of superseded bodies. Returns it. */
async function supersededBytes(store: OpenStore): Promise<number> {
  return store.read(async (tx, database) => {
    const { sizes } = await database.info(tx);
    let bytes = 0;
    for await (const { value } of tx.getRange(database.keys.oldBody.range())) {
      bytes += decodeOldBody(value).bytes ?? Number.NaN;
    }
    expect(sizes.file - sizes.active).toBe(bytes);
    return bytes;
  });
}

async function textOf(
  attachments: AttachmentStore,
  database: Database,
  attachment: Attachment,
): Promise<string> {
  let text = "";
  for await (const chunk of attachments.read(database, attachment, { decoded: true })) {
    text += utf8Decode(chunk);
  }
  return text;
}

/**
 * Counts the rows of each kind in the database, and the rows that the leaves need for their bodies.
 */
async function rowCounts(
  store: OpenStore,
): Promise<{ counts: Map<number, number>; bodyChunkCount: number }> {
  const counts = new Map<number, number>();
  let bodyChunkCount = 0;
  const root = Subspace.fromTuple([1]);
  await store.kv.read(async (tx) => {
    for await (const { key, value } of tx.getRange(root.subspace(DATABASE).range())) {
      const kind = root.unpack(key)[2] as number;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (!DOCUMENTS.includes(kind)) continue;
      for (const { leaf } of decodeDocumentRecord([value]).tree.leaves) {
        bodyChunkCount += leaf.bodyChunkCount;
      }
    }
  });
  return { counts, bodyChunkCount };
}

test("bodies of earlier revisions are readable while they are kept, and are then removed completely", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 24 }), async (steps) => {
      const tried = await openTried();
      const { store, database, attachments, clock } = tried;
      for (const [number, drawn] of steps.entries()) {
        await carryOut(tried, drawn, number);
        await expectAsModelled(tried);
        await supersededBytes(store);
      }
      await sweepAll(store, clock.tick());
      expect(await supersededBytes(store)).toBe(0);
      clock.tick();
      await attachments.reclaim(database, { ageMs: 0 });
      const leaves = (await Promise.all(IDS.map((name) => leavesOf(store, name)))).flat();
      const withFile = leaves.filter((leaf) => leaf.attachments.length > 0);
      const contents = new Set(withFile.map((leaf) => leaf.attachments[0]?.contentId));
      const { counts, bodyChunkCount } = await rowCounts(store);
      const count = (kind: number): number => counts.get(kind) ?? 0;
      expect([BODY, LIST, REFERENCE, CONTENT, OLD_BODY].map(count)).toEqual([
        bodyChunkCount,
        withFile.length,
        withFile.length,
        contents.size,
        0,
      ]);
      await store.kv.close();
    }),
    { numRuns: Number(process.env.OLD_BODY_RUNS ?? 150) },
  );
});
