/**
 * Random edits of several databases and random replications between them, compared with a naive
 * model. In the model, a database is the set of all revisions that it ever had, and a replication
 * is a union of two sets. In the end, all databases have the leaves and winners of the model.
 */

import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const FOREVER = new AbortController().signal;
const DATABASES = ["a", "b", "c"];
const IDS = ["x", "y"];

type Step =
  | {
      readonly kind: "edit";
      readonly database: number;
      readonly id: string;
      /** Index of the leaf to edit. */
      readonly leaf: number;
      readonly deleted: boolean;
      /**
       * Content of the document. Edits with the same content create the same revision in two
       * databases.
       */
      readonly n: number;
    }
  | { readonly kind: "replicate"; readonly source: number; readonly target: number };

const database = fc.nat(DATABASES.length - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("edit" as const),
      database,
      id: fc.constantFrom(...IDS),
      leaf: fc.nat(3),
      deleted: fc.boolean(),
      n: fc.nat(1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("replicate" as const),
      source: database,
      target: database,
    }),
  },
);

interface ModelRevision {
  readonly parent: string | undefined;
  readonly deleted: boolean;
}

/** Revisions by document id and revision name. */
type Model = Map<string, Map<string, ModelRevision>>;

function unite(source: Model, target: Model): void {
  for (const [id, revisions] of source) {
    target.set(id, new Map([...(target.get(id) ?? []), ...revisions]));
  }
}

/** Returns the leaves of each document, winner first. */
function leavesOf(model: Model): Record<string, string[]> {
  const rows = [...model].map(([id, revisions]) => {
    const parents = new Set([...revisions.values()].map(({ parent }) => parent));
    const leaves = [...revisions.keys()].filter((revision) => !parents.has(revision));
    const rank = (revision: string): string => {
      const [generation = "", hash] = revision.split("-");
      const alive = revisions.get(revision)?.deleted === true ? 0 : 1;
      return `${alive} ${generation.padStart(5, "0")} ${hash}`;
    };
    return [id, leaves.toSorted((left, right) => (rank(left) < rank(right) ? 1 : -1))] as const;
  });
  return Object.fromEntries(rows.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

/** Edits a leaf as a user would, in the database and in its model. */
async function edit(node: Node, models: readonly Model[], step: Step): Promise<void> {
  if (step.kind !== "edit") return;
  const { id, deleted, n } = step;
  const model = models[step.database] as Model;
  const leaves = leavesOf(model)[id] ?? [];
  const [winner] = leaves;
  const isGone = winner !== undefined && model.get(id)?.get(winner)?.deleted === true;
  // Deleting a deleted document changes nothing. Any other edit re-creates the document with the
  // tombstone as the parent.
  if (isGone && deleted) return;
  const parent = isGone ? winner : leaves[step.leaf % Math.max(1, leaves.length)];
  const outcome = await node.kv.transact(async (tx) => {
    const opened = await node.databases.open(tx, DATABASES[step.database] as string);
    const body = Utf8Text.of(`{"n":${n}}`);
    const named = isGone ? undefined : parent;
    const written = { id, parent: named, deleted, body, attachments: [] };
    return opened.write(tx, { mode: "interactive", ...written }, ADMIN);
  });
  if (outcome.kind !== "written") throw new Error(JSON.stringify(outcome));
  const revisions = model.get(id) ?? new Map<string, ModelRevision>();
  revisions.set(outcome.revision, { parent, deleted });
  model.set(id, revisions);
}

async function replicate(node: Node, models: readonly Model[], from: number, to: number) {
  if (from === to) return;
  const [source, target] = [DATABASES[from], DATABASES[to]];
  const started = await node.replicator.start(parseReplication({ source, target }), USER);
  expect(await node.replicator.ended(started, FOREVER)).toMatchObject({ kind: "completed" });
  unite(models[from] as Model, models[to] as Model);
  const content = await node.content(target as string);
  expect(content).toEqual(leavesOf(models[to] as Model));
}

test("databases that replicate with each other have the same leaves and winners as a naive union of their revisions", async () => {
  const opened: Node[] = [];
  onTestFinished(async () => {
    for (const node of opened) await node.stop();
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      const node = await openNode();
      opened.push(node);
      node.start();
      for (const name of DATABASES) await node.createDatabase(name);
      const models: Model[] = DATABASES.map(() => new Map());
      for (const drawn of steps) {
        if (drawn.kind === "edit") await edit(node, models, drawn);
        else await replicate(node, models, drawn.source, drawn.target);
      }
      for (const [index, model] of models.entries()) {
        expect(await node.content(DATABASES[index] as string)).toEqual(leavesOf(model));
      }
      // After two rounds through the ring of databases, every revision is in all databases.
      for (let hop = 0; hop < 2 * DATABASES.length; hop++) {
        await replicate(node, models, hop % DATABASES.length, (hop + 1) % DATABASES.length);
      }
      const [first, ...others] = await Promise.all(DATABASES.map((name) => node.content(name)));
      for (const other of others) expect(other).toEqual(first);
    }),
    { numRuns: 15 },
  );
});
