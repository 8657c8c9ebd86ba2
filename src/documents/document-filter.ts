/** The port of a filter: which documents pass. */
import { Turns } from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { DocumentSelector, SelectorLimits } from "./document-selector.ts";
import { documentArgument } from "./sandbox-run.ts";

/** Whether each of the documents passes. One that is a function, or a selector that takes long, throws a SandboxError when that fails. */
export type DocumentFilter = (documents: readonly Document[]) => Promise<boolean[]>;

/** Those pass that match, in their form on the wire. */
export function matchingFilter(
  selector: DocumentSelector,
  functions: DesignFunctions & SelectorLimits,
): DocumentFilter {
  return async (documents) => {
    const turns = new Turns(functions.runtime.clock);
    const passes: boolean[] = [];
    for (const document of documents) {
      if (turns.areDue) await turns.give();
      passes.push(await selector.matches(documentArgument(document), functions));
    }
    return passes;
  };
}
