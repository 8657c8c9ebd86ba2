/**
 * A client of simulated databases. It retries indefinitely, and each of its operations is applied
 * only once.
 */
import { errorCode, Utf8Text } from "../../../src/base/index.ts";
import type {
  AttachmentEdit,
  Database,
  DocumentEdit,
  StagedContent,
} from "../../../src/databases/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import type { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";
import { persistently } from "../kernel/persistently.ts";

export type ComposedNode = ReturnType<typeof composeNode>;
type Edit = (tx: Transaction, database: Database) => Promise<DocumentEdit | undefined>;

export class Client {
  readonly node: ComposedNode;

  constructor(node: ComposedNode) {
    this.node = node;
  }

  async createDatabases(names: readonly string[]): Promise<void> {
    for (const name of names) {
      await this.#unless("STORE_DATABASE_EXISTS", (tx) => this.node.databases.create(tx, name));
    }
  }

  /** Removes a database. Returns false if it did not exist. */
  removeDatabase(name: string): Promise<boolean> {
    return this.#unless("STORE_DATABASE_NOT_FOUND", (tx) => this.node.databases.remove(tx, name));
  }

  /** Replaces a document. Does nothing if the database does not exist. */
  async put(database: string, id: string, body: object): Promise<void> {
    await this.write(database, async (tx, opened) => {
      const winner = await opened.documents.read(tx, id);
      const parent = winner === undefined || winner.deleted ? undefined : winner.revision;
      const text = Utf8Text.of(JSON.stringify(body));
      return { id, deleted: false, body: text, attachments: [], mode: "interactive", parent };
    });
  }

  /** Creates a document unless it exists. */
  async putOnce(database: string, id: string, body: object): Promise<void> {
    const text = Utf8Text.of(JSON.stringify(body));
    const made = { id, deleted: false, body: text, attachments: [], parent: undefined };
    await this.write(database, async () => ({ ...made, mode: "interactive" }));
  }

  async delete(database: string, id: string): Promise<void> {
    await this.write(database, async (tx, opened) => {
      const winner = await opened.documents.read(tx, id);
      if (winner === undefined || winner.deleted) return undefined;
      const body = Utf8Text.of("{}");
      const parent = winner.revision;
      return { id, deleted: true, body, attachments: [], mode: "interactive", parent };
    });
  }

  /** Calls `edit` in a transaction, and writes the result, if any. */
  async write(name: string, edit: Edit): Promise<void> {
    await this.#unless("STORE_DATABASE_NOT_FOUND", async (tx) => {
      const opened = await this.node.databases.open(tx, name);
      const made = await edit(tx, opened);
      if (made !== undefined) await opened.write(tx, made, ADMIN);
    });
  }

  /** Stages bytes for a document. Returns `undefined` if staging fails. */
  async stage(name: string, bytes: Uint8Array): Promise<StagedContent | undefined> {
    const { kv, databases, attachments } = this.node;
    const chunks = (async function* () {
      yield bytes;
    })();
    try {
      const database = await kv.read((tx) => databases.open(tx, name));
      return await attachments.stage(database, chunks, {});
    } catch (error) {
      const code = errorCode(error);
      if (code?.startsWith("KV_") || code?.startsWith("STORE_")) return undefined;
      throw error;
    }
  }

  async #unless(code: string, body: (tx: Transaction) => Promise<unknown>): Promise<boolean> {
    try {
      await persistently(this.node, body);
      return true;
    } catch (error) {
      if (errorCode(error) !== code) throw error;
      return false;
    }
  }
}

/** Returns an attachment with this name, added in the document's new revision. */
export function staged(name: string, content: StagedContent): AttachmentEdit {
  return { kind: "staged", name, contentType: "application/octet-stream", content };
}
