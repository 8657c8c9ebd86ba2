/**
 * A malicious server. Its responses contain malformed or truncated JSON, wrong types, huge numbers,
 * invalid revisions, unrequested documents, duplicate rows, errors, and endless redirects.
 */
import type { FetchRequest } from "../../../src/http-client/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import { type Answer, plainAnswer, type Serve } from "./simulated-network.ts";

export const HOSTILE_HOST = "hostile.test";
export const HOSTILE_URL = `http://${HOSTILE_HOST}`;

const HOSTILE_RATIO = 0.4;
const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  2 ** 70,
  "",
  "\u0000",
  "0-x",
  "99999999999999999999-abc",
  "_local/x",
  "x".repeat(10_000),
  [],
  [[]],
  {},
  { error: "x", reason: 5 },
];
/** Documents that no database contains, and documents with malformed members. */
const STRAY_DOCUMENTS: readonly object[] = [
  { _id: "stray", _rev: "1-abc", _revisions: { start: 1, ids: ["abc"] } },
  { _id: "doc-1", _rev: "x", _revisions: { start: -3, ids: [] } },
  { _id: "doc-2", _rev: "2-b", _revisions: { start: 2, ids: ["b", "b"] }, _attachments: { a: 5 } },
  { _id: "_design/stray", _rev: "1-d", filters: 7 },
];

export function hostile(serve: Serve, random: SeededRandom): Serve {
  return async (request) => {
    if (!random.chance(HOSTILE_RATIO)) return serve(request);
    const draw = random.ratio();
    if (draw < 0.1) return plainAnswer(500, random.pick(["", "{", '{"error":5}', "<html>"]));
    if (draw < 0.15) return plainAnswer(random.pick([200, 201, 404, 405, 413, 601]), "{}");
    if (draw < 0.2) return redirect(request, random);
    const answer = await serve(request);
    if (draw < 0.35) return { ...answer, bytes: cut(answer.bytes, random) };
    if (draw < 0.4) return { ...answer, type: random.pick(["", "text/html", "multipart/mixed"]) };
    return distorted(answer, random);
  };
}

/** Returns a redirect to the same URL, a neighbouring path, or an address without a server. */
function redirect({ url }: FetchRequest, random: SeededRandom): Answer {
  const location = random.pick([url, `${url}x`, "http://nobody.test/", "::", ""]);
  return { ...plainAnswer(random.pick([301, 302, 303, 307, 308]), ""), headers: { location } };
}

function cut(bytes: Uint8Array, random: SeededRandom): Uint8Array {
  return bytes.subarray(0, random.integer(bytes.length + 1));
}

/** Returns the response with a few changed values. */
function distorted(answer: Answer, random: SeededRandom): Answer {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(answer.bytes).toString());
  } catch {
    return { ...answer, bytes: cut(answer.bytes, random) };
  }
  for (let count = 1 + random.integer(3); count > 0; count--) json = distort(json, random);
  return { ...answer, bytes: Buffer.from(JSON.stringify(json)) };
}

function distort(value: unknown, random: SeededRandom): unknown {
  if (random.chance(0.15)) return random.pick(ODD_VALUES);
  if (Array.isArray(value)) {
    if (value.length === 0 || random.chance(0.2)) return [...value, random.pick(STRAY_DOCUMENTS)];
    const at = random.integer(value.length);
    if (random.chance(0.2)) return [...value, value[at]];
    return value.map((item, index) => (index === at ? distort(item, random) : item));
  }
  if (typeof value === "object" && value !== null) {
    const names = Object.keys(value);
    if (names.length === 0) return random.pick(ODD_VALUES);
    const chosen = random.pick(names);
    const changed = distort((value as Record<string, unknown>)[chosen], random);
    return { ...value, [chosen]: changed };
  }
  return random.pick(ODD_VALUES);
}
