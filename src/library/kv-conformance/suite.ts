/**
 * Conformance suite of the key-value layer's contract, for any test runner. It needs only a way to
 * open an implementation.
 */
import { atomicTests } from "./atomics.ts";
import { FEATURES, type Feature, type Test } from "./features.ts";
import {
  clearAll,
  closeFixture,
  type Fixture,
  type KvImplementation,
  openFixture,
} from "./fixture.ts";
import { isolationTests } from "./isolation.ts";
import { limitTests } from "./limits.ts";
import { outcomeTests } from "./outcomes.ts";
import { propertyTests } from "./properties.ts";
import { readTests } from "./reads.ts";
import { versionstampTests } from "./versionstamps.ts";
import { watchTests } from "./watches.ts";

/** A test of the suite. Tests must run one after the other. */
export interface ConformanceCase {
  /** Group and behaviour, such as `watches: many watches on one key fire together`. */
  readonly name: string;
  run(): Promise<void>;
}

export interface ConformanceSuite {
  readonly cases: readonly ConformanceCase[];
  /** Closes and removes the store. Call it after the last test. */
  close(): Promise<void>;
}

/** Default number of random cases per property. */
const PROPERTY_RUN_COUNT = 25;

type Declare = (fixture: () => Fixture, test: Test) => void;

/** Returns the tests for the features that the implementation declares. */
export function kvConformance(implementation: KvImplementation): ConformanceSuite {
  const { features = FEATURES, propertyRunCount = PROPERTY_RUN_COUNT } = implementation;
  const declared = new Set(features);
  let opening: Promise<Fixture> | undefined;
  let fixture: Fixture | undefined;
  const current = (): Fixture => fixture as Fixture;
  const cases: ConformanceCase[] = [];
  const declare = (group: string, groupNeeds: readonly Feature[], tests: Declare): void =>
    tests(current, (name, run, needs = []) => {
      if (![...groupNeeds, ...needs].every((feature) => declared.has(feature))) return;
      cases.push({
        name: `${group}: ${name}`,
        async run() {
          opening ??= openFixture(implementation);
          fixture = await opening;
          await clearAll(fixture.kv);
          await run();
        },
      });
    });
  declare("reads", [], readTests);
  declare("atomic operations", ["atomics"], atomicTests);
  declare("isolation", [], isolationTests);
  declare("versionstamps", ["versionstamps"], versionstampTests);
  declare("watches", ["watches"], watchTests);
  declare("limits", ["limits"], limitTests);
  declare("outcomes", [], outcomeTests);
  declare("properties", [], (open, test) =>
    propertyTests(open, test, { runCount: propertyRunCount, hasAtomics: declared.has("atomics") }),
  );
  return {
    cases,
    async close() {
      if (opening !== undefined) await closeFixture(await opening);
    },
  };
}
