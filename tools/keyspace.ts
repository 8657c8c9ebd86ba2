/**
 * Generates the page that lists every key shape of the store, from the lists that the layers export
 * next to their keys. `npm test` fails if `docs/keyspace.md` is stale; `npx vitest run
 * test/keyspace.test.ts -u` updates it.
 */
import { DATABASE_KEY_SHAPES, REGISTRY_KEY_SHAPES } from "../src/databases/index.ts";
import { COPY_KEY_SHAPES, LMDB_KEY_SHAPES } from "../src/host/index.ts";
import { INDEX_KEY_SHAPES } from "../src/indexes/index.ts";
import { JOB_KEY_SHAPES } from "../src/jobs/index.ts";
import { type KeyShape, KV_KEY_SHAPES, REMOVAL_KEY_SHAPES } from "../src/kv/index.ts";
import { REPLICATOR_KEY_SHAPES } from "../src/replicator/index.ts";
import { SERVER_KEY_SHAPES } from "../src/server/index.ts";

interface Section {
  readonly title: string;
  readonly where: string;
  readonly shapes: readonly KeyShape[];
}

const SECTIONS: readonly Section[] = [
  { title: "Server", where: "In the whole store.", shapes: SERVER_KEY_SHAPES },
  { title: "Jobs", where: 'Below `("tandem", 1)`.', shapes: JOB_KEY_SHAPES },
  {
    title: "Databases: the registry",
    where: 'Below `("tandem", 2)`.',
    shapes: REGISTRY_KEY_SHAPES,
  },
  {
    title: "Databases: one database",
    where: 'Below `("tandem", 2, 2, uuid)`.',
    shapes: DATABASE_KEY_SHAPES,
  },
  {
    title: "Indexes of one database",
    where:
      'Below `("tandem", 2, 2, uuid, 20)`. The keys of entries go on behind their tuples with bytes that are none.',
    shapes: INDEX_KEY_SHAPES,
  },
  { title: "Replicator", where: 'Below `("tandem", 3)`.', shapes: REPLICATOR_KEY_SHAPES },
  {
    title: "Key-value layer",
    where: "In the whole store.",
    shapes: [...REMOVAL_KEY_SHAPES, ...KV_KEY_SHAPES, ...COPY_KEY_SHAPES],
  },
  {
    title: "LMDB",
    where:
      "The keys of the embedded engine's file, which holds all of the above, as bytes, not tuples. Outside the tree, in LMDB's first two pages, are records of the last small commits, for the process that opens the store after a failure of the machine (`src/host/lmdb/redo.ts`).",
    shapes: LMDB_KEY_SHAPES,
  },
];

/** The names of all lists of key shapes exported by `sources`. Each has to be on the page. */
export function declaredShapes(sources: readonly string[]): string[] {
  return sources
    .flatMap((source) => [...source.matchAll(/export const (\w+_KEY_SHAPES)\b/g)])
    .map(([, name]) => name as string)
    .toSorted();
}

/** The names of the lists from which the page is generated. */
export const LISTED_SHAPES: readonly string[] = [
  "COPY_KEY_SHAPES",
  "DATABASE_KEY_SHAPES",
  "INDEX_KEY_SHAPES",
  "JOB_KEY_SHAPES",
  "KV_KEY_SHAPES",
  "LMDB_KEY_SHAPES",
  "REGISTRY_KEY_SHAPES",
  "REMOVAL_KEY_SHAPES",
  "REPLICATOR_KEY_SHAPES",
  "SERVER_KEY_SHAPES",
];

export function keyspacePage(): string {
  const lines = [
    "# The keyspace",
    "",
    "Every shape of key that Tandem stores, made by `tools/keyspace.ts` from the lists beside the code that builds the keys.",
    'Keys are tuples in FoundationDB\'s encoding, below `("tandem")` unless a section says otherwise. A value in parentheses is a tuple, too.',
  ];
  for (const { title, where, shapes } of SECTIONS) {
    lines.push("", `## ${title}`, "", where, "", "| key | value | note |", "| --- | --- | --- |");
    for (const { key, value, note } of shapes) {
      lines.push(`| \`${key}\` | ${cell(value)} | ${cell(note)} |`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
