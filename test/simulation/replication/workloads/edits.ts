/**
 * Edits databases at random: creates documents, new revisions, attachments, deletions, and
 * conflicting branches.
 */
import { Utf8Text } from "../../../../src/base/index.ts";
import type { AttachmentEdit, Database, DocumentEdit } from "../../../../src/databases/index.ts";
import type { Transaction } from "../../../../src/kv/index.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import type { Workload } from "../../workload.ts";
import { staged } from "../client.ts";
import type { Scene } from "../scene.ts";
import { FILTERS } from "../topology.ts";

const DOCUMENT_COUNT = 12;
/**
 * Prefixes of document names. The cluster's targets refuse some of these documents, and the server
 * fails for others.
 */
const PREFIXES = ["doc", "doc", "doc", "refused", "damaged"];
/** Id of a document that every filter accepts. */
const LAST_ID = "doc-8";
const ATTACHMENT_BYTES = [0, 1, 1000, 20_000, 150_000];

export class Edits implements Workload {
  readonly #scene: Scene;
  readonly #attachmentRatio: number;
  #isOver = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#attachmentRatio = scene.random.pick([0, 0.3]);
  }

  async setup(): Promise<void> {
    const { client, topology } = this.#scene;
    await client.createDatabases(topology.databases);
    await this.#putFilters();
  }

  async start(untilMs: number): Promise<void> {
    const { edited } = this.#scene.topology;
    await Promise.all(edited.map((name) => this.#edit(name, untilMs * 0.9)));
  }

  /**
   * Makes another edit for runs whose target was deleted, because a run without changes does not
   * check its target.
   */
  async tend(): Promise<void> {
    const { client, topology } = this.#scene;
    if (!this.#isOver) {
      await this.#putFilters();
      for (const name of topology.edited) await client.put(name, LAST_ID, { isLast: true });
    }
    this.#isOver = true;
  }

  /** Writes the filters into all sources. They have the same revision in every source. */
  async #putFilters(): Promise<void> {
    const { client, topology } = this.#scene;
    const { id, body } = FILTERS;
    for (const { source } of topology.links) await client.putOnce(source, id, body);
  }

  async #edit(database: string, untilMs: number): Promise<void> {
    const { world, random: common, client } = this.#scene;
    const random = common.fork(`edits of ${database}`);
    while (world.time.nowMs < untilMs) {
      for (let count = random.integer(6); count > 0; count--) {
        await this.#editOnce(database, random);
      }
      await client.node.runtime.clock.sleep(random.between(10, 3000));
    }
  }

  async #editOnce(database: string, random: SeededRandom): Promise<void> {
    const { client } = this.#scene;
    const id = `${random.pick(PREFIXES)}-${random.integer(DOCUMENT_COUNT)}`;
    const draw = random.ratio();
    const leafAt = random.ratio();
    const body = Utf8Text.of(JSON.stringify({ number: random.integer(1_000_000) }));
    const hashes = [hexadecimal(random), hexadecimal(random)].slice(0, 1 + random.integer(2));
    const added = await this.#attachments(database, random);
    await client.write(database, async (tx: Transaction, opened: Database) => {
      const leaves = await opened.documents.leaves(tx, id);
      const leaf = leaves[Math.floor(leafAt * leaves.length)];
      if (leaf === undefined || draw < 0.3) {
        const revisions = { start: hashes.length, hashes };
        const isDeleted = draw < 0.03;
        const attachments = isDeleted ? [] : added;
        const made = { id, body, attachments, deleted: isDeleted };
        return { ...made, mode: "replicated", revisions } satisfies DocumentEdit;
      }
      const deleted = !leaf.deleted && draw > 0.85;
      const parent = leaf.deleted ? undefined : leaf.revision;
      const kept = deleted || leaf.deleted ? [] : await this.#kept(tx, opened, id, leaf.revision);
      const attachments = deleted
        ? []
        : [...kept.filter((name) => !names(added).has(name)).map(stub), ...added];
      return { id, body, attachments, deleted, mode: "interactive", parent };
    });
  }

  async #kept(tx: Transaction, database: Database, id: string, revision: string) {
    const documents = await database.documents.readLeaves(tx, id);
    const document = documents.find((leaf) => leaf.revision === revision);
    return document?.attachments.map(({ name }) => name) ?? [];
  }

  async #attachments(database: string, random: SeededRandom): Promise<AttachmentEdit[]> {
    if (!random.chance(this.#attachmentRatio)) return [];
    const name = `file-${random.integer(3)}`;
    const bytes = random.bytes(1).fill(random.integer(256));
    const content = await this.#scene.client.stage(
      database,
      Buffer.alloc(random.pick(ATTACHMENT_BYTES), bytes),
    );
    return content === undefined ? [] : [staged(name, content)];
  }
}

function names(edits: readonly AttachmentEdit[]): ReadonlySet<string> {
  return new Set(edits.map(({ name }) => name));
}

function stub(name: string): AttachmentEdit {
  return { kind: "stub", name };
}

function hexadecimal(random: SeededRandom): string {
  return Buffer.from(random.bytes(16)).toString("hex");
}
