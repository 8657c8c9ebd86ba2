/** Long files start first: started last they would run while other cores have nothing left to do. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Simulations, and tests that wait for processes. */
const LONG =
  /\/test\/(simulation|jobs\/worker-processes|end-to-end\/(guilty|kill|faults)|kv\/lmdb-power)/;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
