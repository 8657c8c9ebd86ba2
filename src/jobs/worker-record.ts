/**
 * The stored forms of a worker and its lease. The first element is the format version. The worker's
 * program and labels are the last elements, because older programs ignore additional elements.
 */
import { assert } from "../base/index.ts";
import { packTuple, type Tuple, unpackTuple } from "../kv/index.ts";
import type { JobType } from "./job.ts";
import type { Program, Worker, WorkerLease } from "./worker.ts";

const FORMAT = 1;

export function encodeWorker(worker: Worker): Uint8Array {
  const { node, processId, types, sinceMs, leaseMs, program, labels } = worker;
  const { version = null, formats } = program ?? {};
  const announced = [version, formats?.min ?? null, formats?.max ?? null];
  const last = labels.length > 0 ? [...announced, [...labels]] : program ? announced : [];
  return packTuple([FORMAT, node, processId, [...types], sinceMs, leaseMs, ...last]);
}

export function decodeWorker(id: string, value: Uint8Array): Worker {
  const [format, node, processId, types, sinceMs, leaseMs, ...announced] = unpackTuple(value);
  assert(format === FORMAT, "The worker's record must have a supported format version");
  assert(
    typeof node === "string" && typeof processId === "string",
    "A worker must have a node and a process id",
  );
  assert(Array.isArray(types), "A worker must have a list of job types");
  assert(
    typeof sinceMs === "number" && typeof leaseMs === "number",
    "A worker must have a start time and a lease",
  );
  const program = decodeProgram(announced);
  const [labels = []] = announced.slice(3);
  assert(Array.isArray(labels), "The labels of a worker must be a list");
  const described = { node, processId, types: types as JobType[], labels: labels as string[] };
  return { id, ...described, sinceMs, leaseMs, program };
}

function decodeProgram([version, min, max]: Tuple): Program | undefined {
  if (version === undefined || version === null) return undefined;
  assert(
    typeof version === "string" && typeof min === "number" && typeof max === "number",
    "An announced program must have a version and a range of formats",
  );
  return { version, formats: { min, max } };
}

export function encodeLease({ renewalCount, renewedAtMs }: WorkerLease): Uint8Array {
  return packTuple([FORMAT, renewalCount, renewedAtMs]);
}

export function decodeLease(value: Uint8Array): WorkerLease {
  const [format, renewalCount, renewedAtMs] = unpackTuple(value);
  assert(format === FORMAT, "The lease must have a supported format version");
  assert(typeof renewalCount === "number", "A lease must have a renewal count");
  assert(typeof renewedAtMs === "number", "A lease must have a renewal time");
  return { renewalCount, renewedAtMs };
}

export function encodeExpulsion(): Uint8Array {
  return packTuple([FORMAT]);
}
