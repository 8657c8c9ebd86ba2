/** What a process that runs jobs says of itself, and the stored form of that. */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { WorkerId } from "../../jobs/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { HostMeasure } from "../endpoints/host-measures.ts";

/** A process, from its start to its end, however often it registers as a worker. */
export type NodeId = string;

/** How the process is. */
export interface ProcessMeasure {
  /** Resident. */
  readonly memoryBytes: number;
  /** How late its event loop was on average, since the measure before. */
  readonly eventLoopDelayMs: number;
}

export interface NodeReport extends ProcessMeasure {
  /** For people; several processes may have one name. */
  readonly node: string;
  readonly processId: string;
  readonly version: string;
  /** The last registration. */
  readonly worker: WorkerId;
  /** Jobs that it would run at most. */
  readonly slots: number;
  /** Jobs that it runs; absent in reports of older versions. */
  readonly runningCount?: number;
  /** It has heard that it is to drain, and takes no jobs. */
  readonly isDraining: boolean;
  readonly startedMs: number;
  readonly reportedMs: number;
  /** The servers that it asks most. */
  readonly hosts: readonly HostMeasure[];
}

/** The stored form; the first element is the format's version. */
const FORMAT = 1;

export function encodeReport(report: NodeReport): Uint8Array {
  return packTuple([FORMAT, utf8Encode(JSON.stringify(report))]);
}

/** Undefined for a report of a version that stores it in another form. */
export function decodeReport(value: Uint8Array): NodeReport | undefined {
  const [format, text] = unpackTuple(value);
  if (format !== FORMAT) return undefined;
  assert(text instanceof Uint8Array, "A report is text");
  return JSON.parse(utf8Decode(text)) as NodeReport;
}
