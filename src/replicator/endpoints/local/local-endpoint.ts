/**
 * A local database, accessed without a socket. It reads and writes the text that would be sent over
 * HTTP, so that both kinds of endpoints can be combined, and the bytes of a body do not change.
 */
import { errorCode, type JsonText, Utf8Text } from "../../../base/index.ts";
import {
  type Authority,
  isDatabaseAdmin,
  type MissingRevisions,
  type WriteOutcome,
} from "../../../databases/index.ts";
import { renderStoredDocument } from "../../../documents/index.ts";
import type { Transaction } from "../../../kv/index.ts";
import { checkCreation, ProtocolError } from "../../../protocol/index.ts";
import type {
  ChangesItem,
  ChangesRequest,
  CheckpointDocument,
  Endpoint,
  EndpointInfo,
  SourceSequence,
} from "../endpoint.ts";
import { EndpointError } from "../endpoint.ts";
import { type ContinuedOutcome, LocalAccess, type LocalEndpointParts } from "./access.ts";
import { readLocalChanges, startOf } from "./changes.ts";
import { LocalDocumentReader } from "./document-reader.ts";
import { LocalDocumentWriter } from "./document-writer.ts";
import type { GroupedWrites } from "./grouped-writes.ts";

/** Error codes of a database that is missing, or that the job's owner has no access to. */
const INACCESSIBLE: ReadonlySet<string | undefined> = new Set([
  "STORE_DATABASE_NOT_FOUND",
  "REPLICATOR_ENDPOINT_FAILED",
]);

export class LocalEndpoint implements Endpoint {
  readonly shownUrl: string;
  readonly reader: LocalDocumentReader;
  readonly writer: LocalDocumentWriter;
  /** A transaction is durable once it is acknowledged. */
  readonly writesDurably = true;
  readonly continuesLogs = true;
  readonly roundTripMs = undefined;
  readonly #access: LocalAccess;
  readonly #logWrites: GroupedWrites;

  /**
   * Reads and writes as `owner`: with the current rights of a user in our own directory, or with
   * the rights that an authentication handler vouched for. `jobId` is stored with conflicts.
   * `logWrites` writes local documents.
   */
  constructor(
    parts: LocalEndpointParts,
    name: string,
    {
      owner,
      jobId,
      logWrites,
    }: {
      readonly owner: Authority;
      readonly jobId?: string | undefined;
      readonly logWrites: GroupedWrites;
    },
  ) {
    this.#access = new LocalAccess(parts, name, owner);
    this.#logWrites = logWrites;
    this.shownUrl = this.#access.shownUrl;
    this.reader = new LocalDocumentReader(this.#access);
    this.writer = new LocalDocumentWriter(this.#access, jobId);
  }

  async create(parameters: Readonly<Record<string, string>>): Promise<boolean> {
    const { kv, databases } = this.#access.parts;
    const { isAdmin } = await this.#access.user();
    try {
      if (!isAdmin) throw new EndpointError("unauthorized", "You are not a server admin.");
      this.#access.refuseSystemName();
      await kv.transact(async (tx) => {
        await databases.create(tx, this.#access.name);
        checkCreation(parameters);
      });
      return true;
    } catch (error) {
      if (error instanceof ProtocolError) throw new EndpointError("db_create_failed", error.reason);
      if (errorCode(error) !== "STORE_DATABASE_EXISTS") throw this.#access.shown(error);
      return false;
    }
  }

  info(): Promise<EndpointInfo> {
    return this.#access.read(async (tx, database) => {
      const { instanceStartTime } = database;
      const { lastSequence: updateSequence, isEmpty } = await database.changes.end(tx);
      return { updateSequence, instanceStartTime, isEmpty };
    });
  }

  changes(request: ChangesRequest, signal: AbortSignal): AsyncIterable<readonly ChangesItem[]> {
    return readLocalChanges(this.#access, request, signal);
  }

  async pendingChangeCount(since: SourceSequence): Promise<number | undefined> {
    return this.#access.read(async (tx, database) =>
      database.changes.pendingCount(tx, await startOf(tx, database, since)),
    );
  }

  async missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
  ): Promise<ReadonlyMap<string, MissingRevisions>> {
    const asked = [...revisions];
    const answers = await this.#access.read((tx, database) =>
      database.documents.missingRevisions(tx, asked),
    );
    const lacking = new Map<string, MissingRevisions>();
    for (const [index, answer] of answers.entries()) {
      const [id] = asked[index] as readonly [string, readonly string[]];
      if (answer.missing.length > 0) lacking.set(id, answer);
    }
    return lacking;
  }

  async readDocument(id: string): Promise<string | undefined> {
    const document = await this.#access.read((tx, database) => database.documents.read(tx, id));
    if (document === undefined || document.deleted) return undefined;
    return renderStoredDocument(document);
  }

  async security(): Promise<JsonText> {
    return this.#access.read((tx, database) => database.security(tx));
  }

  async setSecurity(text: JsonText): Promise<void> {
    const { kv } = this.#access.parts;
    const user = await this.#access.user();
    await kv.transact(
      async (tx) => {
        const database = await this.#access.open(tx, user);
        if (!isDatabaseAdmin(await database.security(tx), user)) {
          throw new EndpointError("forbidden", "You are not a db or server admin.");
        }
        await database.setSecurity(tx, text);
      },
      { whenUnknown: "retry" },
    );
  }

  async readLocal(id: string): Promise<CheckpointDocument | undefined> {
    const found = await this.#access.read((tx, database) =>
      database.local.read(tx, `_local/${id}`),
    );
    return found && { revision: found.revision, body: found.body.text };
  }

  async writeLocal(
    id: string,
    body: string,
    parent: string | undefined,
    _signal: AbortSignal,
    instanceStartTime?: string,
  ): Promise<string | undefined> {
    const user = await this.#access.user();
    const write = async (tx: Transaction): Promise<WriteOutcome> => {
      const database = await this.#access.open(tx, user);
      // A checkpoint for a deleted database must not be written to a new database of the same name.
      const isMeant =
        (instanceStartTime ?? database.instanceStartTime) === database.instanceStartTime;
      if (!isMeant) {
        throw new EndpointError("checkpoint_commit_failure", "The database was re-created.");
      }
      return database.local.write(tx, { id: `_local/${id}`, parent, body: Utf8Text.of(body) });
    };
    const outcome = await this.#logWrites.write(write);
    return outcome.kind === "written" ? outcome.revision : undefined;
  }

  async continueLog(
    name: string,
    text: JsonText,
    _signal: AbortSignal,
    { madeAt }: { readonly madeAt?: string } = {},
  ): Promise<string | false | undefined> {
    const { continueLog } = this.#access.parts;
    let outcome: ContinuedOutcome;
    try {
      const user = await this.#access.user();
      outcome = await this.#logWrites.write(async (tx) =>
        continueLog(tx, await this.#access.open(tx, user), { name, text, madeAt }),
      );
    } catch (error) {
      // If the database is missing or inaccessible, separate requests report it as for any server.
      if (!INACCESSIBLE.has(errorCode(error))) throw error;
      return undefined;
    }
    switch (outcome.kind) {
      case "written":
        return outcome.revision;
      case "ends-elsewhere":
      case "re-created":
        return false;
      case "missing":
      case "too-long":
        return undefined;
    }
  }

  commit(): Promise<string> {
    return this.#access.read(async (_tx, { instanceStartTime }) => instanceStartTime);
  }
}
