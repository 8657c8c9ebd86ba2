/**
 * Responses of CouchDB 3.5 to the rows of the API's tables, recorded in one file per test file.
 * `record-couchdb.mjs` records the responses. All other test runs use the recordings and
 * therefore need no CouchDB.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect } from "vitest";
import { type Answer, type AskOptions, bodyBytes, parsed } from "./api.fixture.ts";

/** Whether this run records CouchDB's responses (`record-couchdb.mjs`). */
export const IS_RECORDING = process.env.COUCHDB_RECORD === "1";

const FOLDER = new URL("recorded/", import.meta.url);

/** Response headers that depend on the time or the server. */
const PASSING_HEADERS = new Set([
  "connection",
  "date",
  "server",
  "x-couch-request-id",
  "x-couchdb-body-time",
]);

interface RecordedAnswer {
  /** Digest of the request. If the request of a row has changed, the response is not used. */
  readonly question: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/**
 * Whether the length of a response varies. Bodies other than attachments may contain ids and
 * sequences, whose length differs between servers.
 */
function hasVaryingLength({ headers }: Answer): boolean {
  return /json|text\/plain|multipart/.test(headers["content-type"] ?? "");
}

/** Recorded responses by recording file. */
const recordings = new Map<string, Map<string, RecordedAnswer>>();

/**
 * Stores the response to the row of the current test. The file is written when all tests of the
 * file have run.
 */
export function record(ask: string, options: AskOptions, answer: Answer): void {
  const recorded = recording(() => new Map());
  const name = testName();
  if (recorded.has(name)) throw new Error(`Two rows have one name: ${name}`);
  const headers = Object.entries(answer.headers)
    .filter(
      ([header]) =>
        !PASSING_HEADERS.has(header) && !(header === "content-length" && hasVaryingLength(answer)),
    )
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
  const { status, text } = answer;
  const kept = { question: digest(ask, options), status, headers: Object.fromEntries(headers) };
  recorded.set(name, withoutVaryingValues({ ...kept, text }));
}

/**
 * Returns the recorded response to the row of the current test. Throws if this request was not
 * recorded.
 */
export function recordedAnswer(ask: string, options: AskOptions): Answer {
  const found = recording(readRecording).get(testName());
  if (found?.question !== digest(ask, options)) {
    throw new Error("No CouchDB was asked this: record its answers (CONTRIBUTING.md)");
  }
  const { status, headers, text } = found;
  return { status, headers, text, bytes: Buffer.from(text), json: parsed(text) };
}

afterAll(() => {
  if (!IS_RECORDING) return;
  mkdirSync(FOLDER, { recursive: true });
  for (const [file, recorded] of recordings) {
    const names = [...recorded].toSorted(([left], [right]) => (left < right ? -1 : 1));
    writeFileSync(file, `${JSON.stringify(Object.fromEntries(names), null, 2)}\n`);
  }
});

/** Returns the recorded responses to the rows of the current test file. */
function recording(
  begin: (file: string) => Map<string, RecordedAnswer>,
): Map<string, RecordedAnswer> {
  const file = recordingFile();
  const recorded = recordings.get(file) ?? begin(file);
  recordings.set(file, recorded);
  return recorded;
}

function readRecording(file: string): Map<string, RecordedAnswer> {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "{}";
  return new Map(Object.entries(JSON.parse(text) as Record<string, RecordedAnswer>));
}

function recordingFile(): string {
  const tests = basename(expect.getState().testPath as string, ".test.ts");
  return fileURLToPath(new URL(`${tests}.json`, FOLDER));
}

function testName(): string {
  return expect.getState().currentTestName as string;
}

function digest(ask: string, { headers = {}, body }: AskOptions): string {
  const hash = createHash("sha256").update(JSON.stringify([ask, headers]));
  return hash.update(bodyBytes(body)).digest("hex").slice(0, 16);
}

/**
 * Replaces random and time-dependent values. Generated ids and boundaries become numbers, and
 * sequences keep only their number. Times, durations, and etags that are not revisions become
 * constants.
 */
function withoutVaryingValues(answer: RecordedAnswer): RecordedAnswer {
  const { question, ...said } = answer;
  const numbers = new Map<string, string>();
  const numbered = (id: string): string => {
    const number = numbers.get(id) ?? String(numbers.size + 1).padStart(32, "0");
    numbers.set(id, number);
    return number;
  };
  const text = JSON.stringify(said)
    .replaceAll(/\b(\d+)-g1AAA[\w-]+/g, "$1-g1AAAA")
    .replaceAll(/\\"[0-9A-Z]{20,}\\"/g, '\\"TAG\\"')
    .replaceAll(/(instance_start_time\W+)\d+/g, (_, name) => `${name}1700000000`)
    .replaceAll(/(execution_time_ms\W+)[\d.]+/g, (_, name) => `${name}1.5`)
    .replaceAll(/(?<!\w|\d-)[0-9a-f]{32}(?!\w)/g, numbered);
  return { question, ...JSON.parse(text) };
}
