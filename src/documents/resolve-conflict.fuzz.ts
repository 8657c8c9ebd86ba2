/**
 * Checks that sites converge on one winner and then stop writing revisions, in whatever order they
 * edit, replicate and resolve. Sites that know the same leaves write the same revisions.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { utf8Decode } from "../base/index.ts";
import type { Document, DocumentEdit, Leaf, Sandbox, SandboxCall } from "../databases/index.ts";
import { CONTEXT, interactive, type OpenStore, openStore } from "../databases/store.fixture.ts";
import type { ConflictPolicy } from "./conflict-policy.ts";
import { DesignCodes } from "./design-codes.ts";
import { ConflictResolution, type Decide } from "./resolve-conflict.ts";

const ID = "a";

/** A server with one database. */
class Site {
  readonly store: OpenStore;
  readonly #resolution: ConflictResolution;

  constructor(store: OpenStore, decide?: Decide) {
    this.store = store;
    const { runtime, kv, registry: databases } = store;
    const functions = { runtime, sandbox: MERGING, timeoutMs: 1, codes: new DesignCodes() };
    this.#resolution = new ConflictResolution({ runtime, kv, databases, functions }, decide);
  }

  setPolicy(policy: ConflictPolicy): Promise<void> {
    const text = JSON.stringify(policy);
    return this.store.write((tx, { resolutions }) => resolutions.setPolicy(tx, text));
  }

  leaves(): Promise<Leaf[]> {
    return this.store.read((tx, { documents }) => documents.leaves(tx, ID));
  }

  async live(): Promise<Leaf[]> {
    return (await this.leaves()).filter(({ deleted }) => !deleted);
  }

  /** Changes one of the leaves that are not deleted, or creates the document. */
  async edit(at: number, body: object, deleted: boolean): Promise<void> {
    const live = await this.live();
    const parent = live[at % Math.max(1, live.length)]?.revision;
    if (deleted && live.length < 2) return;
    await this.store.edit(interactive(ID, parent, { body: JSON.stringify(body), deleted }));
  }

  async resolve(): Promise<void> {
    await this.#resolution.resolve("films", ID);
  }

  /** Copies the leaves selected by `bits` to the target. */
  async copyTo(target: Site, bits: number): Promise<void> {
    const leaves = await this.store.read((tx, { documents }) => documents.readLeaves(tx, ID));
    const edits = leaves.filter((_, index) => (bits >> (index % 30)) & 1).map(replicatedEdit);
    await target.store.write((tx, database) => database.writeMany(tx, edits, CONTEXT));
  }
}

const ALL = -1;

function replicatedEdit({ id, deleted, body, revisions }: Document): DocumentEdit {
  return { mode: "replicated", id, deleted, body, revisions, attachments: [] };
}

/** Sandbox in which the function of a policy merges the lists `n` of all leaves. */
const MERGING = {
  async call({ runs }: SandboxCall) {
    return runs.map((run) => {
      const documents: { n?: number[] }[] =
        typeof run === "string" ? JSON.parse(run) : run.map((one) => JSON.parse(joined(one)));
      const n = [...new Set(documents.flatMap((document) => document.n ?? []))].sort();
      const same = documents.findIndex((document) => JSON.stringify(document.n) === `[${n}]`);
      return same >= 0 ? same : JSON.stringify({ n });
    });
  },
} as unknown as Sandbox;

function joined(pieces: readonly Uint8Array[]): string {
  return pieces.map((piece) => utf8Decode(piece)).join("");
}

const site = fc.nat(2);
const step = fc.oneof(
  fc.record({
    kind: fc.constant("edit" as const),
    site,
    at: fc.nat(3),
    value: fc.integer({ min: 0, max: 4 }),
    deleted: fc.constantFrom(false, false, false, true),
  }),
  fc.record({
    kind: fc.constant("copy" as const),
    site,
    to: site,
    bits: fc.constantFrom(1, 2, 5, ALL),
  }),
  fc.record({ kind: fc.constant("resolve" as const), site }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

async function openSites(policies: readonly ConflictPolicy[], decides: readonly Decide[] = []) {
  const sites: Site[] = [];
  for (const [index, policy] of policies.entries()) {
    const opened = new Site(await openStore(), decides[index]);
    await opened.setPolicy(policy);
    sites.push(opened);
  }
  return sites;
}

async function take(sites: readonly Site[], drawn: Step): Promise<void> {
  const one = sites[drawn.site % sites.length] as Site;
  if (drawn.kind === "resolve") await one.resolve();
  else if (drawn.kind === "copy")
    await one.copyTo(sites[drawn.to % sites.length] as Site, drawn.bits);
  else await one.edit(drawn.at, { n: [drawn.value], at: drawn.value }, drawn.deleted);
}

/** Resolves and replicates until no site changes. Throws if that takes too long. */
async function settle(sites: readonly Site[]): Promise<void> {
  let before = "";
  for (let round = 0; round < 30; round++) {
    for (const one of sites) await one.resolve();
    for (const one of sites) for (const other of sites) await one.copyTo(other, ALL);
    const after = JSON.stringify(await Promise.all(sites.map((each) => each.leaves())));
    if (after === before) return;
    before = after;
  }
  throw new Error("The sites keep writing revisions");
}

const LAST_WRITE: ConflictPolicy = { resolve: "last_write", field: "at" };
const LONGEST: ConflictPolicy = { resolve: "longest_history" };
const REMOTE: ConflictPolicy = { resolve: "remote" };
const MERGE: ConflictPolicy = { resolve: "function", function: "merge" };

async function checkSettles(policies: readonly ConflictPolicy[], numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const sites = await openSites(policies);
      for (const drawn of steps) await take(sites, drawn);
      await settle(sites);
      const [first, ...others] = await Promise.all(sites.map((each) => each.leaves()));
      for (const other of others) expect(other).toEqual(first);
      const liveCount = (await (sites[0] as Site).live()).length;
      expect(liveCount).toBeLessThanOrEqual(1);
      const isDeleted = steps.some((drawn) => drawn.kind === "edit" && drawn.deleted);
      if (!isDeleted && first?.length !== 0) expect(liveCount).toBe(1);
      await Promise.all(sites.map(({ store }) => store.kv.close()));
    }),
    { numRuns },
  );
}

/**
 * Checks that two sites that know the same leaves write the same revisions if both resolve the
 * conflict before they replicate.
 */
async function checkSameRevisions(
  policy: ConflictPolicy,
  { decides, numRuns }: { readonly decides?: readonly Decide[]; readonly numRuns: number },
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const sites = await openSites([policy, policy], decides);
      const unresolved = steps.filter(({ kind }) => kind !== "resolve");
      for (const drawn of unresolved) await take(sites, drawn);
      const [left, right] = sites as [Site, Site];
      await left.copyTo(right, ALL);
      await right.copyTo(left, ALL);
      for (const one of sites) await one.resolve();
      expect(await right.leaves()).toEqual(await left.leaves());
      expect((await left.live()).length).toBeLessThanOrEqual(1);
      await Promise.all(sites.map(({ store }) => store.kv.close()));
    }),
    { numRuns },
  );
}

describe("sites that resolve concurrently arrive at one winner", () => {
  test.each([
    ["two by last write", [LAST_WRITE, LAST_WRITE]],
    ["three by last write", [LAST_WRITE, LAST_WRITE, LAST_WRITE]],
    ["three by the longest history", [LONGEST, LONGEST, LONGEST]],
    ["two by a function", [MERGE, MERGE]],
    ["three by a function", [MERGE, MERGE, MERGE]],
    ["two that prefer the other", [REMOTE, REMOTE]],
    ["one that prefers the other", [REMOTE, LONGEST]],
    ["two with different policies", [LAST_WRITE, LONGEST]],
  ])("%s", (_, policies) => checkSettles(policies, 40), 120_000);
});

describe("sites that know the same leaves write the same revisions", () => {
  test.each([LAST_WRITE, LONGEST, MERGE])(
    "%j",
    (policy) => {
      return checkSameRevisions(policy, { numRuns: 60 });
    },
    60_000,
  );

  test("the check detects a decision that differs between sites", async () => {
    const first: Decide = () => 0;
    const last: Decide = (_, leaves) => leaves.length - 1;
    const checking = checkSameRevisions(LAST_WRITE, { decides: [first, last], numRuns: 200 });
    await expect(checking).rejects.toThrow("Property failed");
  }, 60_000);
});
