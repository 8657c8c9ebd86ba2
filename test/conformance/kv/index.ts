/**
 * Conformance suite for the contract of the key-value layer. The suite needs only a way to open an
 * implementation.
 */
import { afterAll, beforeAll, beforeEach, describe } from "vitest";
import { atomicTests } from "./atomics.ts";
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

export type { KvImplementation, OpenedEngines } from "./fixture.ts";

export function kvConformance(implementation: KvImplementation): void {
  describe(`the key-value contract on ${implementation.name}`, () => {
    let fixture: Fixture;
    beforeAll(async () => {
      fixture = await openFixture(implementation);
    });
    beforeEach(() => clearAll(fixture.kv));
    afterAll(() => closeFixture(fixture));

    const current = (): Fixture => fixture;
    describe("reads", () => readTests(current));
    describe("atomic operations", () => atomicTests(current));
    describe("isolation", () => isolationTests(current));
    describe("versionstamps", () => versionstampTests(current));
    describe("watches", () => watchTests(current));
    describe("limits", () => limitTests(current));
    describe("outcomes", () => outcomeTests(current));
    describe("properties", () => propertyTests(current, implementation.supports.propertyRunCount));
  });
}
