/** General utilities, independent of databases and replication; `json` parses JSON exactly. */

export { abortable, abortWith, finishWithin, waitAtMost } from "./abort.ts";
export { AssertionError, assert } from "./assert.ts";
export { backoff } from "./backoff.ts";
export { BoundedQueue } from "./bounded-queue.ts";
export { cutBytes } from "./byte-slab.ts";
export {
  BYTES_PER_UNIT_MAX,
  base64Decode,
  base64Encode,
  byteText,
  compareBytes,
  concatBytes,
  EMPTY_BYTES,
  equalBytes,
  startsWithBytes,
  Utf8Writer,
  utf8Decode,
  utf8Encode,
  utf8Slice,
} from "./bytes.ts";
export { clientNetwork } from "./client-network.ts";
export {
  allTogether,
  forEachConcurrent,
  mapAtOnce,
  runInTurns,
  runTogether,
  Semaphore,
} from "./concurrency.ts";
export { escapeControls } from "./control-characters.ts";
export type { EventName, Events } from "./events.ts";
export { hexDecode, hexEncode, isLowerCaseHex, writeHex } from "./hex.ts";
export { JsonElements } from "./json/json-elements.ts";
export { JsonFields } from "./json/json-fields.ts";
export { parseElements, parseYielding } from "./json/json-parse.ts";
export type { ScanOptions } from "./json/json-scan.ts";
export { JsonLimitError } from "./json/json-scan.ts";
export type { JsonKind, JsonMember, JsonText, JsonValue, NamedValue } from "./json/json-text.ts";
export {
  joinObject,
  jsonKind,
  outlineJson,
  outlineJsonYielding,
  splitArray,
  splitObject,
} from "./json/json-text.ts";
export {
  canonicalJson,
  hasJsonNumber,
  integerValue,
  isJsonObject,
  JsonNumber,
  keepsForm,
  membersOf,
  numberValue,
  objectOf,
  parseJson,
  printJson,
  sortMembers,
} from "./json/json-value.ts";
export { LatestValues } from "./latest-values.ts";
export { append, chunksOf, largest, replaceAll, smallest, sum } from "./lists.ts";
export { forbidCopies, valuesNow } from "./live-values.ts";
export { Notifier } from "./notifier.ts";
export { errorCode, OperationalError } from "./operational-error.ts";
export type { Page } from "./page.ts";
export { peekChunk } from "./peek-chunk.ts";
export type {
  Clock,
  Compression,
  DigestStream,
  Digests,
  Random,
  Runtime,
  Trace,
} from "./runtime.ts";
export { currentSec, md5HexOf, randomHex } from "./runtime.ts";
export type { Seal } from "./seal.ts";
export { ServerStoppingError } from "./server-stopping-error.ts";
export type { SpanAttributes, SpanName, Spans } from "./spans.ts";
export { inSpan } from "./spans.ts";
export { type LongText, Utf8Text } from "./utf8-text.ts";
export { joinYielding, SLICE_MS, Yielder } from "./yielder.ts";
