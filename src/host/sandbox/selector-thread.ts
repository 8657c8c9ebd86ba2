/** Thread that matches documents against selectors. */
import { parentPort } from "node:worker_threads";
import { parseJson, utf8Decode } from "../../base/index.ts";
import { compileSelector, type Selector } from "../../protocol/index.ts";
import type { SelectorAnswer, SelectorRequest } from "./messages.ts";
import { releaseMemory } from "./release-memory.ts";
import type { Ready } from "./thread-pool.ts";

const port = parentPort as NonNullable<typeof parentPort>;
let matches: (document: unknown) => boolean;

port.on("message", ({ selector, document }: SelectorRequest) => {
  const text = utf8Decode(document);
  releaseMemory([document.buffer]);
  port.postMessage(answerTo(selector, text));
});
port.postMessage({ kind: "ready" } satisfies Ready);

function answerTo(selector: string | undefined, document: string): SelectorAnswer {
  try {
    if (selector !== undefined) matches = compileSelector(parseJson(selector) as Selector);
    return { kind: "matched", isMatch: matches(parseJson(document)) };
  } catch (error) {
    return { kind: "failed", reason: `The selector failed: ${(error as Error).message}` };
  }
}
