/** Databases of a node in the caller's process. */
import { errorCode } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import type { OpenedNode } from "../../server/index.ts";

/** A database of an open node, which a replication can name as source or target. */
export interface NodeDatabase {
  readonly name: string;
  /** Creates the database. Returns false if it exists. */
  create(): Promise<boolean>;
  exists(): Promise<boolean>;
  /** Deletes the database. Returns false if it does not exist. */
  remove(): Promise<boolean>;
}

export interface NodeDatabases {
  /** Returns the database with this name, which need not exist. */
  get(name: string): NodeDatabase;
}

/** The rights of a caller in the node's own process, which are unrestricted. */
export const IN_PROCESS: Authority = {
  userName: null,
  vouched: { by: "process", roles: ["_admin"] },
  wasAdmin: true,
};

const nodes = new WeakMap<object, OpenedNode>();

/** Returns the node of a database; `undefined` for any other object. */
export function nodeOf(database: object): OpenedNode | undefined {
  return nodes.get(database);
}

export function databasesOf(node: OpenedNode): NodeDatabases {
  const { kv, parts } = node.parts;
  const { databases } = parts;
  /**
   * Returns whether `work` succeeds. Returns false if it rejects with `code`, and rejects with any
   * other error.
   */
  const unless = async (code: string, work: Promise<unknown>): Promise<boolean> => {
    try {
      await work;
      return true;
    } catch (error) {
      if (errorCode(error) !== code) throw error;
      return false;
    }
  };
  return {
    get(name) {
      const database: NodeDatabase = {
        name,
        create: () =>
          unless(
            "STORE_DATABASE_EXISTS",
            kv.transact((tx) => databases.create(tx, name)),
          ),
        exists: () => kv.read(async (tx) => (await databases.find(tx, name)) !== undefined),
        remove: () =>
          unless(
            "STORE_DATABASE_NOT_FOUND",
            kv.transact((tx) => databases.remove(tx, name)),
          ),
      };
      nodes.set(database, node);
      return database;
    },
  };
}
