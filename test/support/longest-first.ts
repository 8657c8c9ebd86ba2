/** The simulations take longest, so they start first: started last they would run while other cores have nothing left to do. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean =>
      moduleId.includes("/test/simulation/");
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
