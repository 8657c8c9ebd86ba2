/** A thread in which documents are held against selectors. */
import { parentPort } from "node:worker_threads";
import { utf8Decode } from "../../base/index.ts";
import { compileSelector } from "../../protocol/index.ts";
import type { SelectorAnswer, SelectorRequest } from "./messages.ts";
import type { ThreadMessage } from "./thread-pool.ts";

const port = parentPort as NonNullable<typeof parentPort>;
let matches: (document: unknown) => boolean;

port.on("message", ({ selector, document }: SelectorRequest) => {
  port.postMessage(answerTo(selector, document));
  const memory = [document.buffer];
  port.postMessage({ kind: "spent", memory } satisfies ThreadMessage, memory);
});
port.postMessage({ kind: "ready" } satisfies ThreadMessage);

function answerTo(selector: string | undefined, document: Uint8Array): SelectorAnswer {
  try {
    if (selector !== undefined) matches = compileSelector(JSON.parse(selector));
    return { kind: "matched", isMatch: matches(JSON.parse(utf8Decode(document))) };
  } catch (error) {
    return { kind: "failed", reason: `The selector failed: ${(error as Error).message}` };
  }
}
