/** A client that edits databases at random: new documents, new revisions, deletions, and branches that make conflicts. */
import { errorCode, Utf8Text } from "../../src/base/index.ts";
import type { DocumentEdit } from "../../src/databases/index.ts";
import type { composeNode } from "../support/compose-node.ts";
import { ADMIN } from "../support/open-node.ts";
import type { SeededRandom } from "./kernel/seeded-random.ts";

const DOCUMENT_COUNT = 12;
/** Names of which the cluster's targets refuse some, and over which its server fails. */
const PREFIXES = ["doc", "doc", "doc", "refused", "damaged"];

export class RandomEditor {
  readonly #node: ReturnType<typeof composeNode>;
  readonly #random: SeededRandom;

  constructor(node: ReturnType<typeof composeNode>, random: SeededRandom) {
    this.#node = node;
    this.#random = random;
  }

  async createDatabases(names: readonly string[]): Promise<void> {
    const { kv, databases } = this.#node;
    for (const name of names) {
      // It may be there already: a commit whose fate was not learned.
      await kv
        .transact((tx) => databases.create(tx, name), { whenUnknown: "retry" })
        .catch((error: unknown) => {
          if (errorCode(error) !== "STORE_DATABASE_EXISTS") throw error;
        });
    }
  }

  async putJob(database: string, id: string, body: object): Promise<void> {
    const edit = { id, deleted: false, body: Utf8Text.of(JSON.stringify(body)), attachments: [] };
    await this.#write(database, async () => ({ ...edit, mode: "interactive", parent: undefined }));
  }

  /** Edits for so long, in bursts. */
  async edit(database: string, durationMs: number): Promise<void> {
    const { clock } = this.#node.runtime;
    const random = this.#random.fork(database);
    const endMs = clock.monotonicMs() + durationMs;
    while (clock.monotonicMs() < endMs) {
      for (let count = random.integer(6); count > 0; count--) {
        await this.#editOnce(database, random);
      }
      await clock.sleep(random.between(10, 3000));
    }
  }

  #editOnce(database: string, random: SeededRandom): Promise<void> {
    const id = `${random.pick(PREFIXES)}-${random.integer(DOCUMENT_COUNT)}`;
    const draw = random.ratio();
    const body = Utf8Text.of(JSON.stringify({ number: random.integer(1_000_000) }));
    const hashes = [hexadecimal(random), hexadecimal(random)].slice(0, 1 + random.integer(2));
    const place = random.ratio();
    return this.#write(database, async (tx, opened) => {
      const leaves = await opened.leaves(tx, id);
      const leaf = leaves[Math.floor(place * leaves.length)];
      const common = { id, body, attachments: [] };
      if (leaf === undefined || draw < 0.3) {
        const start = hashes.length;
        return {
          ...common,
          mode: "replicated",
          deleted: draw < 0.03,
          revisions: { start, hashes },
        };
      }
      const deleted = !leaf.deleted && draw > 0.85;
      const parent = leaf.deleted ? undefined : leaf.revision;
      return { ...common, mode: "interactive", deleted, parent };
    });
  }

  async #write(
    database: string,
    edit: (
      tx: Parameters<ReturnType<typeof composeNode>["databases"]["open"]>[0],
      opened: Awaited<ReturnType<ReturnType<typeof composeNode>["databases"]["open"]>>,
    ) => Promise<DocumentEdit>,
  ): Promise<void> {
    const { kv, databases } = this.#node;
    await kv.transact(
      async (tx) => {
        const opened = await databases.open(tx, database);
        await opened.write(tx, await edit(tx, opened), ADMIN);
      },
      { whenUnknown: "check" },
    );
  }
}

function hexadecimal(random: SeededRandom): string {
  return Buffer.from(random.bytes(16)).toString("hex");
}
