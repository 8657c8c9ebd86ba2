/**
 * The changes that a server has at the time of the request, as one response (`feed=normal`), which
 * ends with the last change at that time. A one-shot job therefore ends even if other clients keep
 * writing. The end is not detected by comparing sequences, because they need not be numeric.
 *
 * Back-pressure: rows are read only as fast as they are copied. A response that breaks off is
 * requested again from its last row.
 */
import { errorCode, JsonElements, type JsonValue } from "../../../base/index.ts";
import type { FetchResponse } from "../../../http-client/index.ts";
import {
  type ChangesItem,
  type ChangesRequest,
  isSamePosition,
  type SourceSequence,
} from "../endpoint.ts";
import { CHANGES_ANSWER } from "./answer-budget.ts";
import {
  askedChanges,
  changesFailed,
  chooser,
  type FeedOptions,
  knowsNoIds,
} from "./changes-request.ts";
import {
  changesOf,
  checkedSequence,
  lastSequenceOf,
  REVISION_DEPTH,
  saysWhere,
} from "./changes-row.ts";
import {
  asObject,
  isBroken,
  isNoAnswer,
  isTooMuch,
  NESTING_MAX,
  parseJson,
} from "./json-answer.ts";
import type { HttpRequests } from "./requests.ts";

/** Options for splitting a response into rows, each scanned down to its revisions. */
const ROWS = {
  depthMax: 1 + REVISION_DEPTH,
  nestingMax: NESTING_MAX,
  valueCountMax: CHANGES_ANSWER.valuesMax,
};

type Rows = readonly JsonValue[];

/** Yields rows as they arrive, and returns the sequence at the end of the feed. */
type Feed = AsyncGenerator<Rows, SourceSequence, undefined>;

/**
 * Reads the feed of existing changes. `timeoutMs` is the interval of heartbeats, which the server
 * sends while a filter rejects all changes.
 */
export async function* readChangesSnapshot(
  requests: HttpRequests,
  options: FeedOptions,
  request: ChangesRequest,
  signal: AbortSignal,
): AsyncIterable<readonly ChangesItem[]> {
  let { since, selection } = request;
  const choose = chooser(request.selection);
  let hasNews = request.showsEnd === true;
  for (;;) {
    const asked = { ...request, selection, since };
    const feed = await openFeed(requests, options, asked, signal);
    if (feed === "no-doc-ids") {
      selection = { kind: "all" };
      continue;
    }
    try {
      let next = feed.first;
      for (; next.done !== true; next = await feed.rows.next()) {
        const rows: Rows = next.value;
        const changes = choose(changesOf(rows, requests.words));
        hasNews ||= changes.length > 0;
        if (changes.length > 0) yield changes;
        since = lastSequenceOf(rows, since);
      }
      // Report the end of the feed, because a filter might have skipped changes after the last row.
      // The next run then does not read these changes again.
      const end = next.value;
      if (hasNews && !isSamePosition(end, since)) yield [{ sequence: end }];
      return;
    } catch (error) {
      // If the position has not moved, give up: the request layer has already repeated the request.
      const hasMoved = !isSamePosition(since, asked.since);
      if (!hasMoved || errorCode(error) !== "HTTP_REQUEST_FAILED") throw error;
      await requests.pause(signal);
    } finally {
      await feed.rows.return(undefined);
    }
  }
}

async function openFeed(
  requests: HttpRequests,
  { timeoutMs, isShort }: FeedOptions,
  request: ChangesRequest,
  signal: AbortSignal,
): Promise<{ readonly first: IteratorResult<Rows>; readonly rows: Feed } | "no-doc-ids"> {
  const parameters = { feed: "normal", heartbeat: String(timeoutMs) };
  const { method, path, ...body } = askedChanges(request, request.since, parameters);
  const answer = await requests.begin(method, path, {
    ...body,
    isShort,
    signal,
    begin: async (response) => {
      const rows = readRows(requests, path, response);
      return { first: await rows.next(), rows };
    },
  });
  if (answer.kind === "begun") return answer.begun;
  const { status, text } = answer;
  if (knowsNoIds(status, request.selection)) return "no-doc-ids";
  throw changesFailed(requests, path, { status, text }, request);
}

async function* readRows(requests: HttpRequests, path: string, response: FetchResponse): Feed {
  const elements = new JsonElements({ name: "results", elementBytesMax: CHANGES_ANSWER.bytesMax });
  let text: string;
  try {
    for await (const piece of response.body) {
      const whole = elements.push(piece);
      if (whole === undefined) continue;
      yield (await requests.outline(whole, path, ROWS)).elements();
    }
    text = elements.rest;
  } catch (error) {
    if (isTooMuch(error)) throw requests.tooLong(path, error.message);
    if (isNoAnswer(error)) throw requests.brokenOff("GET", path);
    throw error;
  }
  const rest = asObject(parseJson(text));
  if (Array.isArray(rest?.results) && saysWhere(rest.last_seq)) {
    return checkedSequence(rest.last_seq);
  }
  // An incomplete response counts as broken off, even if it ended without an error: a proxy might
  // have ended it.
  if (rest === undefined && isBroken(text)) throw requests.brokenOff("GET", path);
  throw requests.unexpected("changes_req_failed", path, response, text);
}
