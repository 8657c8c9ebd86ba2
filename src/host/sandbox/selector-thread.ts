/** A thread in which documents are held against selectors. */
import { parentPort } from "node:worker_threads";
import { utf8Decode } from "../../base/index.ts";
import { compileSelector } from "../../protocol/index.ts";
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
    if (selector !== undefined) matches = compileSelector(JSON.parse(selector));
    return { kind: "matched", isMatch: matches(JSON.parse(document)) };
  } catch (error) {
    return { kind: "failed", reason: `The selector failed: ${(error as Error).message}` };
  }
}
