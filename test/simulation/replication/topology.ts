/**
 * Sources and targets of the replications. Each database is the target of at most one replication.
 */
import type { SeededRandom } from "../kernel/seeded-random.ts";
import { SERVER_URL } from "../network/simulated-server.ts";
import { jobOptions } from "./knobs.ts";

export interface Pair {
  readonly source: string;
  readonly target: string;
}

/** One replication between a pair of databases. */
export interface Link extends Pair {
  readonly body: Readonly<Record<string, unknown>>;
  /** Returns whether the replication copies a document. */
  selects(documentId: string): boolean;
}

const TOPOLOGIES: readonly (readonly Pair[])[] = [
  [{ source: "a", target: "b" }],
  [
    { source: "a", target: "b" },
    { source: "c", target: "d" },
    { source: "a", target: "e" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "c" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "a" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "c" },
    { source: "c", target: "a" },
  ],
];

const FILTER = "only/later";
const LEAST_ID = "doc-5";
/** The design document that all sources contain. */
export const FILTERS = {
  id: "_design/only",
  body: { filters: { later: `function (doc) { return doc._id > "${LEAST_ID}"; }` } },
};

export class Topology {
  readonly links: readonly Link[];

  constructor(random: SeededRandom) {
    this.links = random.pick(TOPOLOGIES).map((pair) => openLink(random, pair));
  }

  get databases(): readonly string[] {
    return [...new Set(this.links.flatMap(({ source, target }) => [source, target]))];
  }

  /**
   * Databases that the workloads edit: those that are not targets. If the replications form a ring,
   * these are all databases.
   */
  get edited(): readonly string[] {
    const targets = new Set(this.links.map(({ target }) => target));
    const sources = new Set(this.links.map(({ source }) => source));
    const isRing = [...targets].every((target) => sources.has(target));
    return this.databases.filter((name) => isRing || !targets.has(name));
  }

  /**
   * Whether no replication copies from the database. If such a database refuses a document, the
   * document is missing only there.
   */
  isSink(database: string): boolean {
    return !this.links.some(({ source }) => source === database);
  }
}

/**
 * Returns the form in which a job refers to a database: by its local name, or by its URL at the
 * server.
 */
export function place(random: SeededRandom, database: string): string {
  return random.chance(0.4) ? `${SERVER_URL}/${database}` : database;
}

function openLink(random: SeededRandom, { source, target }: Pair): Link {
  const all = { source, target, selects: () => true };
  const options = { ...jobOptions(random), continuous: true };
  const from = place(random, source);
  const body = { source: from, target: place(random, target), ...options };
  const draw = random.ratio();
  if (draw < 0.6) return { ...all, body };
  if (draw < 0.75) {
    const ids = ["doc", "refused", "damaged"].flatMap((prefix) =>
      Array.from({ length: 6 }, (_, number) => `${prefix}-${2 * number}`),
    );
    return { ...all, body: { ...body, doc_ids: ids }, selects: (id) => ids.includes(id) };
  }
  const selects = (id: string): boolean => id > LEAST_ID;
  const selection = random.chance(0.5)
    ? { selector: { _id: { $gt: LEAST_ID } } }
    : { source, filter: FILTER };
  return { ...all, body: { ...body, ...selection }, selects };
}
