/** Report of a process that runs jobs, and its stored form. */
import { assert, utf8Decode } from "../../base/index.ts";
import type { WorkerId } from "../../jobs/index.ts";
import { packJson, unpackTuple } from "../../kv/index.ts";
import type { HostMeasure } from "../endpoints/host-measures.ts";

/** Id of a process. It stays the same when the process registers as a worker again. */
export type NodeId = string;

export interface ProcessMeasure {
  /** Resident set size. */
  readonly memoryBytes: number;
  /** Mean event-loop delay since the previous measurement. */
  readonly eventLoopDelayMs: number;
}

export interface NodeReport extends ProcessMeasure {
  /** Display name. Several processes can have the same name. */
  readonly node: string;
  readonly processId: string;
  readonly version: string;
  /** Current registration of the process as a worker. */
  readonly worker: WorkerId;
  /** Maximum number of running jobs. */
  readonly slots: number;
  /** Number of running jobs; absent in reports of older versions. */
  readonly runningCount?: number;
  /** Whether the process is draining, and thus accepts no jobs. */
  readonly isDraining: boolean;
  readonly startedMs: number;
  readonly reportedMs: number;
  /** Measurements for the servers with the most requests. */
  readonly hosts: readonly HostMeasure[];
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeReport(report: NodeReport): Uint8Array {
  return packJson(FORMAT, report);
}

/** Decodes a report. Returns undefined for an unknown format. */
export function decodeReport(value: Uint8Array): NodeReport | undefined {
  const [format, text] = unpackTuple(value);
  if (format !== FORMAT) return undefined;
  assert(text instanceof Uint8Array, "A stored report must be encoded JSON");
  return JSON.parse(utf8Decode(text)) as NodeReport;
}
