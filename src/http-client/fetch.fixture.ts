/** A server implemented as a function, and a clock controlled by the test. */
import type { FetchRequest, FetchResponse } from "./fetch.ts";

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Creates a server that responds with `answer` and records the requests. */
export function openServer(answer: (request: FetchRequest) => Reply | Promise<Reply>) {
  const requests: FetchRequest[] = [];
  return {
    requests,
    fetch: async (request: FetchRequest): Promise<FetchResponse> => {
      requests.push(request);
      const { status, headers = {}, body = "" } = await answer(request);
      return {
        status,
        headers: new Map(Object.entries(headers)),
        body: (async function* () {
          yield new TextEncoder().encode(body);
        })(),
        discard: () => {},
      };
    },
  };
}

export function openClock() {
  let nowMs = 1_000_000;
  const slept: number[] = [];
  return {
    slept,
    move: (durationMs: number): void => {
      nowMs += durationMs;
    },
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: async (durationMs: number): Promise<void> => {
      slept.push(durationMs);
      nowMs += durationMs;
    },
  };
}

export function get(url: string, headers: Readonly<Record<string, string>> = {}): FetchRequest {
  const { signal } = new AbortController();
  return { method: "GET", url, headers, inactivityTimeoutMs: 1000, signal };
}
