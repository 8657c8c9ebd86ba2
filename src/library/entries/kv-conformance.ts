/** `couch-tandem/kv/conformance`: tests of the contract of an engine, for any test runner. */

export type { Feature } from "../kv-conformance/features.ts";
export { FEATURES } from "../kv-conformance/features.ts";
export type { KvImplementation, OpenedEngines } from "../kv-conformance/fixture.ts";
export type { ConformanceCase, ConformanceSuite } from "../kv-conformance/suite.ts";
export { kvConformance } from "../kv-conformance/suite.ts";
