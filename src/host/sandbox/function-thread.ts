/**
 * Thread that runs functions of design documents. Exits if this is the only way to release memory.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import variant from "@jitl/quickjs-wasmfile-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSSyncVariant,
} from "quickjs-emscripten-core";
import { Instance, SandboxCode } from "./code.ts";
import type { SandboxRequest } from "./messages.ts";
import { releaseMemory } from "./release-memory.ts";
import type { Numbered, Ready, ThreadData } from "./thread-pool.ts";

/** Global of Node.js that is missing from the types of Node.js 20. */
declare const WebAssembly: { compile(bytes: Uint8Array): Promise<unknown> };

/** Maximum number of compiled design documents. */
const CODE_COUNT_MAX = 8;
/** Maximum memory of the compiled design documents, including their images. */
const KEPT_BYTES_MAX = 160 * 1024 * 1024;
/** Maximum size of released memory that has not been garbage-collected. */
const DROPPED_BYTES_MAX = 64 * 1024 * 1024;

const port = parentPort as NonNullable<typeof parentPort>;
const stopped = new Int32Array((workerData as ThreadData).stopped);
const wasm = readFileSync(
  fileURLToPath(import.meta.resolve("@jitl/quickjs-wasmfile-release-sync/wasm")),
);
const quickjs = newVariant(variant as unknown as QuickJSSyncVariant, {
  wasmModule: await WebAssembly.compile(wasm),
});

/** Compiled design documents, least recently used first. */
const codes = new Map<string, SandboxCode>();
let droppedBytes = 0;
let number = 0;
let earlier: Promise<void> = Promise.resolve();

port.on("message", (request: SandboxRequest & Numbered) => {
  earlier = earlier.then(() => answer(request));
});
port.postMessage({ kind: "ready" } satisfies Ready);

async function answer(request: SandboxRequest & Numbered): Promise<void> {
  number = request.number;
  const code = await codeOf(request);
  const result = code.call(request);
  const isDropped = code.hasGrown;
  if (isDropped) drop(request.codeId, code);
  const isSpent = droppedBytes > DROPPED_BYTES_MAX;
  port.postMessage({ ...result, isSpent, isDropped });
  releaseMemory(
    request.runs.flatMap((run) => (typeof run === "string" ? [] : run.map(({ buffer }) => buffer))),
  );
  if (isSpent) port.close();
  else if (!isDropped) code.rest();
}

async function codeOf({ codeId, code }: SandboxRequest): Promise<SandboxCode> {
  const found = codes.get(codeId) ?? (await open(code as Uint8Array));
  codes.delete(codeId);
  codes.set(codeId, found);
  return found;
}

async function open(code: Uint8Array): Promise<SandboxCode> {
  const instance = takeOldest() ?? new Instance(await newQuickJSWASMModuleFromVariant(quickjs));
  return new SandboxCode(instance, code, { isStopped: () => Atomics.load(stopped, 0) === number });
}

/** Evicts the oldest design document if a limit is reached. Returns a reusable instance, if any. */
function takeOldest(): Instance | undefined {
  let free: Instance | undefined;
  for (const [codeId, code] of codes) {
    const keptBytes = [...codes.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (codes.size < CODE_COUNT_MAX && keptBytes <= KEPT_BYTES_MAX) break;
    if (code.instance.image.hasGrown) drop(codeId, code);
    else {
      codes.delete(codeId);
      free = code.instance;
    }
  }
  return free;
}

function drop(codeId: string, code: SandboxCode): void {
  codes.delete(codeId);
  droppedBytes += code.byteLength;
}
