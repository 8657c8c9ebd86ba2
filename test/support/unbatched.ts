/**
 * A server that unpacks batches (decision 304), so that a test sees each request of a run as if it
 * had been sent alone.
 */
import type { Fetch, FetchRequest, FetchResponse } from "../../src/http-client/index.ts";
import { BATCH_TYPE, BatchReader, batchMessage } from "../../src/protocol/index.ts";

export function unbatched(fetch: Fetch): Fetch {
  return async (request) => {
    if (!request.url.endsWith("/_tandem/_batch")) return fetch(request);
    const requests = new BatchReader().push(request.body as Uint8Array).map(
      ({ head, body }): FetchRequest => ({
        ...request,
        method: head.method as FetchRequest["method"],
        url: request.url.replace("/_tandem/_batch", String(head.path)),
        headers: { ...request.headers, ...(head.headers as FetchRequest["headers"]) },
        body,
      }),
    );
    const answers = await Promise.all(requests.map((each) => fetch(each)));
    const messages = await Promise.all(answers.map(messageOf));
    const headers = new Map([...(answers[0]?.headers ?? []), ["content-type", BATCH_TYPE]]);
    return { status: 200, headers, body: once(Buffer.concat(messages)), discard: () => {} };
  };
}

async function messageOf(
  { status, headers, body }: FetchResponse,
  request: number,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  const head = { request, status, headers: Object.fromEntries(headers) };
  return Buffer.concat(batchMessage(head, Buffer.concat(pieces)));
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}
