/** Runs the conformance suite of the package with this project's test runner. */
import { afterAll, describe, test } from "vitest";
import type { KvImplementation } from "../../../src/library/kv-conformance/fixture.ts";
import { kvConformance } from "../../../src/library/kv-conformance/suite.ts";

export function testConformance(name: string, implementation: KvImplementation): void {
  describe(`the key-value contract on ${name}`, () => {
    const { cases, close } = kvConformance(implementation);
    for (const each of cases) test(each.name, () => each.run());
    afterAll(close);
  });
}
