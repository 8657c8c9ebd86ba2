/** Interface of a filter, which decides which documents pass. */
import { Yielder } from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { DocumentSelector, SelectorLimits } from "./document-selector.ts";
import { documentArgument } from "./sandbox-run.ts";

/**
 * Returns whether each document passes. Throws a SandboxError if a function or an expensive
 * selector fails.
 */
export type DocumentFilter = (documents: readonly Document[]) => Promise<boolean[]>;

/** Returns a filter that passes documents whose wire form matches the selector. */
export function matchingFilter(
  selector: DocumentSelector,
  functions: DesignFunctions & SelectorLimits,
): DocumentFilter {
  return async (documents) => {
    const yielder = new Yielder(functions.runtime.clock);
    const passes: boolean[] = [];
    for (const document of documents) {
      if (yielder.isDue) await yielder.yield();
      passes.push(await selector.matches(documentArgument(document), functions));
    }
    return passes;
  };
}
