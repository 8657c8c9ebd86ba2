/** Counts the bytes transferred by one run and records the time of the last transfer. */
import type { Clock } from "../../base/index.ts";
import { type Fetch, isStream, observeBody, type RequestBody } from "../fetch.ts";
import { Waits } from "../waits.ts";

export class Activity {
  /** Statistics on the waiting times of the run's requests. */
  readonly waits: Waits;
  readonly #clock: Pick<Clock, "monotonicMs">;
  #byteCount = 0;
  #lastMs: number;
  #excusedCount = 0;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.waits = new Waits(clock);
    this.#clock = clock;
    this.#lastMs = clock.monotonicMs();
  }

  /** Bytes of request and response bodies. */
  get byteCount(): number {
    return this.#byteCount;
  }

  /** Monotonic time of the last transfer, or of the end of an expected silence. */
  get lastMs(): number {
    if (this.#excusedCount === 0) return this.#lastMs;
    return Math.max(this.#lastMs, this.#clock.monotonicMs());
  }

  moved(byteCount: number): void {
    this.#byteCount += byteCount;
    this.#lastMs = Math.max(this.#lastMs, this.#clock.monotonicMs());
  }

  /** Announces an expected silence of this duration. */
  expectSilence(durationMs: number): void {
    this.#lastMs = Math.max(this.#lastMs, this.#clock.monotonicMs() + durationMs);
  }

  /** Treats silence as expected until `pause` settles. */
  async excuse<T>(pause: Promise<T>): Promise<T> {
    this.#excusedCount++;
    try {
      return await pause;
    } finally {
      this.#excusedCount--;
      this.moved(0);
    }
  }
}

export function withActivity(fetch: Fetch, activity: Activity): Fetch {
  return async (request) => {
    const { body } = request;
    const watched = body === undefined ? request : { ...request, body: sent(body, activity) };
    const response = await fetch(watched);
    if (!isStream(body) && body !== undefined) activity.moved((body as { length: number }).length);
    activity.moved(0);
    return observeBody(response, {
      onPiece: (byteCount) => {
        activity.moved(byteCount);
        return undefined;
      },
    });
  };
}

function sent(body: RequestBody, activity: Activity): RequestBody {
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  return { length: body.length, stream: () => sending(body.stream(), activity) };
}

async function* sending(
  chunks: AsyncIterable<Uint8Array>,
  activity: Activity,
): AsyncIterable<Uint8Array> {
  for await (const chunk of chunks) {
    activity.moved(chunk.length);
    yield chunk;
  }
}
