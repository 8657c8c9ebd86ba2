/**
 * The network between nodes and servers. It is slow, loses requests and responses, truncates
 * responses, makes a server accept only half of a request, and can be cut in either direction.
 * Clients run the real code, and a server is a function.
 */
import { setMaxListeners } from "node:events";
import {
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
} from "../../../src/http-client/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";

/** The complete response of a server. */
export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly type: string;
  readonly bytes: Uint8Array;
}

export type Serve = (request: FetchRequest) => Promise<Answer>;

/** Fraction of requests that a fault affects while the network is bad. */
const FAULT_RATIO = 0.2;
const FAULTS = ["lost", "unanswered", "broken off", "half taken", "503", "429"] as const;
const LATENCY_MS_MAX = 40;

export class SimulatedNetwork {
  readonly #random: SeededRandom;
  readonly #servers: ReadonlyMap<string, Serve>;
  #isBad = true;
  /** Number of requests that a fault has affected. */
  faultCount = 0;

  /** `servers` contains the function of each server, by host. */
  constructor(random: SeededRandom, servers: ReadonlyMap<string, Serve>) {
    this.#random = random;
    this.#servers = servers;
  }

  heal(): void {
    this.#isBad = false;
  }

  /** Returns the `fetch` function of this node. A paused node neither sends nor receives. */
  fetchFrom(node: SimulatedNode): Fetch {
    return (request) => {
      const { signal, inactivityTimeoutMs } = request;
      setMaxListeners(0, signal);
      const over = new AbortController();
      const { clock } = node.runtime;
      const silence = clock.sleep(inactivityTimeoutMs, over.signal).then(
        () => Promise.reject(failureOf(request, "UND_ERR_HEADERS_TIMEOUT")),
        () => new Promise<never>(() => {}),
      );
      const answered = this.#send(node, request).finally(() => over.abort());
      return aborted(signal, Promise.race([node.whenAwake(answered), silence]));
    };
  }

  async #send(node: SimulatedNode, request: FetchRequest): Promise<FetchResponse> {
    const { host } = new URL(request.url);
    const serve = this.#servers.get(host);
    if (serve === undefined) throw failureOf(request, "ENOTFOUND");
    const { requests, answers } = node.linkTo(host);
    const fault = this.#draw(request);
    const pause = () =>
      node.runtime.clock.sleep(this.#random.ratio() * LATENCY_MS_MAX, request.signal);
    await pause();
    await requests.passed();
    const failure = failureOf(request, "ECONNRESET");
    if (fault === "lost") throw failure;
    if (fault === "503" || fault === "429") return responseOf(plainAnswer(Number(fault), "{}"));
    const half = fault === "half taken" ? halfOf(request) : undefined;
    const answer = await serve(half === undefined ? request : { ...request, body: half });
    await pause();
    await answers.passed();
    if (fault === "unanswered" || half !== undefined) throw failure;
    return responseOf(answer, fault === "broken off" ? failure : undefined);
  }

  #draw({ url }: FetchRequest): (typeof FAULTS)[number] | undefined {
    if (!this.#isBad || !this.#random.chance(FAULT_RATIO)) return undefined;
    this.faultCount++;
    return url.endsWith("/_bulk_docs")
      ? this.#random.pick(FAULTS)
      : this.#random.pick(FAULTS.slice(0, 3));
  }
}

export function plainAnswer(status: number, text: string): Answer {
  return { status, type: "application/json", bytes: Buffer.from(text) };
}

function failureOf({ method, url }: FetchRequest, cause: string): RequestFailedError {
  return new RequestFailedError({ method, url, cause });
}

/** Settles like `promise`, or rejects with the signal's reason. */
function aborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Returns the body of a request that is not streamed. */
export function textOf(body: FetchRequest["body"]): string {
  return body instanceof Uint8Array ? Buffer.from(body).toString() : String(body);
}

/** Returns the body of a `_bulk_docs` request, reduced to the first half of its documents. */
function halfOf({ body }: FetchRequest): string {
  const { docs, ...rest } = JSON.parse(textOf(body)) as { docs: unknown[] };
  return JSON.stringify({ ...rest, docs: docs.slice(0, Math.ceil(docs.length / 2)) });
}

export function responseOf(
  { status, headers = {}, type, bytes }: Answer,
  breakingOff?: Error,
): FetchResponse {
  const sent = breakingOff === undefined ? bytes : bytes.subarray(0, bytes.length / 2);
  return {
    status,
    headers: new Map([["content-type", type], ...Object.entries(headers)]),
    body: (async function* () {
      if (sent.length > 0) yield sent;
      if (breakingOff !== undefined) throw breakingOff;
    })(),
    discard: () => {},
  };
}
