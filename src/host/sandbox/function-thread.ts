/** A thread in which functions of design documents run. It ends itself when one of them has reached a limit. */
import { parentPort } from "node:worker_threads";
import variant from "@jitl/quickjs-wasmfile-release-sync";
import { newQuickJSWASMModuleFromVariant, type QuickJSSyncVariant } from "quickjs-emscripten-core";
import { SandboxCode } from "./code.ts";
import type { SandboxRequest } from "./messages.ts";
import { releaseMemory } from "./release-memory.ts";
import type { Ready } from "./thread-pool.ts";

/** Design documents that are kept compiled. */
const CODE_COUNT_MAX = 8;

const port = parentPort as NonNullable<typeof parentPort>;
const module = await newQuickJSWASMModuleFromVariant(variant as unknown as QuickJSSyncVariant);
const codes = new Map<string, SandboxCode>();

port.on("message", (request: SandboxRequest) => {
  const answer = codeOf(request).call(request);
  port.postMessage(answer);
  releaseMemory(
    request.runs.flatMap((run) => (typeof run === "string" ? [] : run.map(({ buffer }) => buffer))),
  );
  // Memory that the module took is given back only with the thread.
  if (answer.kind === "failed" && answer.isSpent) port.close();
});
port.postMessage({ kind: "ready" } satisfies Ready);

/** The one that was used last is at the end. */
function codeOf({ codeId, code }: SandboxRequest): SandboxCode {
  const found = codes.get(codeId) ?? new SandboxCode(module, code as Uint8Array);
  codes.delete(codeId);
  codes.set(codeId, found);
  const [oldestId] = codes.keys();
  if (codes.size > CODE_COUNT_MAX && oldestId !== undefined) {
    codes.get(oldestId)?.dispose();
    codes.delete(oldestId);
  }
  return found;
}
