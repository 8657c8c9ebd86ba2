/**
 * Messages between an engine and its committer: many commit requests in one transferred buffer, and
 * one response per group. Requests are numbered, because groups change their order.
 */
import type { AtomicOperation, CommitRequest, Mutation, TextInterval } from "../../kv/index.ts";
import { ByteReader, type ByteWriter } from "./byte-writer.ts";
import { asBuffer } from "./encoding.ts";

export type CommitterMessage =
  /** Requests are at the start of `memory`, which is later returned by `spent`. */
  | { readonly kind: "commit"; readonly memory: ArrayBuffer; readonly byteCount: number }
  | { readonly kind: "close" };

/** Outcome of a request. */
export const OUTCOMES = ["committed", "conflict", "too-old", "unavailable", "unknown"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type CommitterAnswer =
  | { readonly kind: "ready" }
  | {
      readonly kind: "group";
      /** Version shared by the committed requests, which differ in their batch index. */
      readonly version: number;
      /** The numbers of the requests. */
      readonly numbers: Uint32Array;
      /** Outcome of each request as an index into `OUTCOMES`. */
      readonly outcomes: Uint8Array;
      /** Reason for "unavailable" and "unknown". */
      readonly reason: string;
      /** Whether the disk is full. */
      readonly isDiskFull: boolean;
    }
  /** Gives back the buffer of completed requests, for reuse. */
  | { readonly kind: "spent"; readonly memory: ArrayBuffer }
  /** LMDB has failed permanently in this process. */
  | { readonly kind: "given-up" }
  | { readonly kind: "failed"; readonly reason: string };

/** A request as read by the committer: conflicts as strings, mutations still packed. */
export interface PackedRequest {
  readonly number: number;
  readonly readVersion: number | undefined;
  readonly reads: readonly TextInterval[];
  readonly writes: readonly TextInterval[];
  readonly mutationCount: number;
  readonly mutations: Buffer;
}

const NO_VERSION = -1;
/** Maximum size of a mutation's kind, two lengths and an offset. */
const HEAD_BYTES_MAX = 13;
const MUTATION_KINDS = [
  "set",
  "clear",
  "clearRange",
  "setVersionstampedKey",
  "setVersionstampedValue",
  "add",
  "max",
  "byteMin",
] as const;

/** `number`, an unsigned 32-bit integer, identifies the request in the response. */
export function writeRequest(writer: ByteWriter, number: number, request: CommitRequest): void {
  writer.expect(mutationBytes(request.mutations));
  writer.uint32(number);
  writer.float64(request.readVersion ?? NO_VERSION);
  writeIntervals(writer, request.reads);
  writeIntervals(writer, request.writes);
  writer.uint32(request.mutations.length);
  const headOffset = writer.length;
  writer.uint32(0);
  const offset = writer.length;
  for (const mutation of request.mutations) {
    writer.uint8(MUTATION_KINDS.indexOf(mutation.kind));
    switch (mutation.kind) {
      case "set":
        writer.text(mutation.key);
        writer.bytes(mutation.value);
        break;
      case "clear":
        writer.text(mutation.key);
        break;
      case "clearRange":
        writer.text(mutation.begin);
        writer.text(mutation.end);
        break;
      case "setVersionstampedKey":
        writer.text(mutation.key);
        writer.bytes(mutation.value);
        writer.uint32(mutation.offset);
        break;
      case "setVersionstampedValue":
        writer.text(mutation.key);
        writer.bytes(mutation.value.bytes);
        writer.uint32(mutation.value.offset);
        break;
      default:
        writer.text(mutation.key);
        writer.bytes(mutation.operand);
    }
  }
  writer.patchUint32(headOffset, writer.length - offset);
}

/** Upper bound of the size written by `writeRequest`, to allocate large requests only once. */
function mutationBytes(mutations: readonly Mutation[]): number {
  let byteCount = 0;
  for (const mutation of mutations) byteCount += HEAD_BYTES_MAX + textBytes(mutation);
  return byteCount;
}

function textBytes(mutation: Mutation): number {
  switch (mutation.kind) {
    case "clear":
      return mutation.key.length;
    case "clearRange":
      return mutation.begin.length + mutation.end.length;
    case "set":
    case "setVersionstampedKey":
      return mutation.key.length + mutation.value.length;
    case "setVersionstampedValue":
      return mutation.key.length + mutation.value.bytes.length;
    default:
      return mutation.key.length + mutation.operand.length;
  }
}

export function readRequests(buffer: Uint8Array): PackedRequest[] {
  const reader = new ByteReader(asBuffer(buffer));
  const requests: PackedRequest[] = [];
  while (!reader.isAtEnd) {
    const number = reader.uint32();
    const readVersion = reader.float64();
    requests.push({
      number,
      readVersion: readVersion === NO_VERSION ? undefined : readVersion,
      reads: readIntervals(reader),
      writes: readIntervals(reader),
      mutationCount: reader.uint32(),
      mutations: reader.bytes(),
    });
  }
  return requests;
}

/** Receives each mutation. Byte arguments are views of the message. */
export interface MutationVisitor {
  set(key: Buffer, value: Buffer): void;
  clear(key: Buffer): void;
  clearRange(begin: Buffer, end: Buffer): void;
  setVersionstampedKey(key: Buffer, offset: number, value: Buffer): void;
  setVersionstampedValue(key: Buffer, value: Buffer, offset: number): void;
  operate(operation: AtomicOperation, key: Buffer, operand: Buffer): void;
}

export function visitMutations(mutations: Buffer, visitor: MutationVisitor): void {
  const reader = new ByteReader(mutations);
  while (!reader.isAtEnd) {
    const kind = MUTATION_KINDS[reader.uint8()] as (typeof MUTATION_KINDS)[number];
    const key = reader.bytes();
    switch (kind) {
      case "set":
        visitor.set(key, reader.bytes());
        break;
      case "clear":
        visitor.clear(key);
        break;
      case "clearRange":
        visitor.clearRange(key, reader.bytes());
        break;
      case "setVersionstampedKey": {
        const value = reader.bytes();
        visitor.setVersionstampedKey(key, reader.uint32(), value);
        break;
      }
      case "setVersionstampedValue": {
        const value = reader.bytes();
        visitor.setVersionstampedValue(key, value, reader.uint32());
        break;
      }
      default:
        visitor.operate(kind, key, reader.bytes());
    }
  }
}

function writeIntervals(writer: ByteWriter, intervals: readonly TextInterval[]): void {
  writer.uint32(intervals.length);
  for (const { begin, end } of intervals) {
    writer.uint8(end === undefined ? 0 : 1);
    writer.text(begin);
    if (end !== undefined) writer.text(end);
  }
}

function readIntervals(reader: ByteReader): TextInterval[] {
  const intervals: TextInterval[] = [];
  for (let left = reader.uint32(); left > 0; left--) {
    const isRange = reader.uint8() === 1;
    const begin = reader.text();
    intervals.push({ begin, end: isRange ? reader.text() : undefined });
  }
  return intervals;
}
