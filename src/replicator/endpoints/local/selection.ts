/** The revisions that a replication selects from local changes. */

import { parseJson, type Runtime } from "../../../base/index.ts";
import {
  type Change,
  type Database,
  type SecuritySubject,
  shareOf,
} from "../../../databases/index.ts";
import {
  type DesignFunctions,
  type DocumentFilter,
  DocumentSelector,
  matchingFilter,
  openDesignFilter,
  parseFilterName,
} from "../../../documents/index.ts";
import type { ReadTransaction } from "../../../kv/index.ts";
import type { Selector } from "../../../protocol/index.ts";
import { percentEncode } from "../../../protocol/index.ts";
import { filterParameters, type Selection } from "../../request/replication.ts";

/** Maximum number of changes whose documents are read together. */
const READ_COUNT_MAX = 100;

/** Returns the selected revisions of each change; the list is empty for a change to skip. */
export type LocalSelection = (changes: readonly Change[]) => Promise<(readonly string[])[]>;

export interface LocalSelectionParts {
  readonly runtime: Runtime;
  readonly functions: DesignFunctions;
  readonly read: <T>(body: (tx: ReadTransaction, database: Database) => Promise<T>) => Promise<T>;
  readonly user: SecuritySubject;
  /** Name of the local database. */
  readonly name: string;
  /** Signal that aborts when the run ends. */
  readonly signal: AbortSignal;
}

/** Opens the selection. Throws CouchDB's 404 for a missing filter function. */
export async function openLocalSelection(
  parts: LocalSelectionParts,
  selection: Selection,
  { winningRevisionsOnly }: { readonly winningRevisionsOnly: boolean },
): Promise<LocalSelection> {
  const revisionsOf = ({ winner, leaves }: Change): string[] =>
    winningRevisionsOnly ? [winner] : leaves.map(({ revision }) => revision);
  const byId =
    (passes: (id: string) => boolean): LocalSelection =>
    async (changes) =>
      changes.map((change) => (passes(change.id) ? revisionsOf(change) : []));
  switch (selection.kind) {
    case "all":
      return byId(() => true);
    case "doc-ids": {
      const ids = new Set(selection.ids);
      return byId((id) => ids.has(id));
    }
    case "selector": {
      const { name, user, signal } = parts;
      const pass = matchingFilter(new DocumentSelector(parseJson(selection.selector) as Selector), {
        ...parts.functions,
        share: shareOf(name, user.userName),
        signal,
      });
      return byDocument(parts, pass, winningRevisionsOnly);
    }
    case "filter": {
      if (selection.name === "_design") return byId((id) => id.startsWith("_design/"));
      const pass = await openFunction(parts, selection);
      return byDocument(parts, pass, winningRevisionsOnly);
    }
  }
}

function byDocument(
  { read }: LocalSelectionParts,
  pass: DocumentFilter,
  winningRevisionsOnly: boolean,
): LocalSelection {
  return async (changes) => {
    const taken: string[][] = [];
    while (taken.length < changes.length) {
      const ids = changes.slice(taken.length, taken.length + READ_COUNT_MAX).map(({ id }) => id);
      const documents = await read((tx, database) =>
        database.documents.candidates(tx, ids, { allLeaves: !winningRevisionsOnly }),
      );
      const passes = await pass(documents.flat());
      let next = 0;
      taken.push(
        ...documents.map((leaves) =>
          leaves.filter(() => passes[next++]).map(({ revision }) => revision),
        ),
      );
    }
    return taken;
  };
}

function openFunction(
  { runtime, functions, read, user, signal }: LocalSelectionParts,
  selection: Selection & { readonly kind: "filter" },
): Promise<DocumentFilter> {
  const { name } = selection;
  const query: Readonly<Record<string, string>> = Object.fromEntries(filterParameters(selection));
  const filter =
    name === "_view" ? parseFilterName("view", query.view ?? "") : parseFilterName("filter", name);
  return read((tx, database) =>
    openDesignFilter(tx, { runtime, functions }, database, filter, {
      method: "GET",
      path: [database.name, "_changes"],
      rawPath: `/${percentEncode(database.name)}/_changes`,
      query: { ...query, filter: name },
      headers: {},
      body: "undefined",
      peer: "",
      userName: user.userName,
      roles: user.roles,
      signal,
    }),
  );
}
