/** Determines where a run failed, by recording the errors of its endpoints' calls. */
import type {
  BulkReadResult,
  ChangesItem,
  ChangesRequest,
  CheckpointDocument,
  Endpoint,
  EndpointInfo,
  PlainDocument,
  RevisionRequest,
  StreamedDocument,
  WriteFailure,
  WriteResult,
} from "../endpoints/endpoint.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import { type FailurePhase, type FailurePlace, NO_PLACE } from "../jobs/failing.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { hostOfFailedProxy } from "./failure.ts";

export class FailurePlaces {
  readonly #places = new WeakMap<object, FailurePlace>();
  readonly #hosts = new Map<FailurePlace["side"], string | undefined>();

  /** Wraps an endpoint to record its failures. */
  watch(endpoint: Endpoint, side: "source" | "target", address: EndpointAddress): Endpoint {
    const host = address.kind === "http" ? validEndpointUrl(address)?.host : undefined;
    this.#hosts.set(side, host);
    return new WatchedEndpoint(endpoint, (error, phase) =>
      this.#note(error, { phase, side, host }),
    );
  }

  /** Records a failure to read the source's filter, such as a missing one. */
  async ofFilter<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      this.#note(error, { phase: "filter", side: "source", host: this.#hosts.get("source") });
      throw error;
    }
  }

  /**
   * Returns where the error, or one of its causes, was thrown. The host is that of the proxy if the
   * proxy failed.
   */
  of(error: unknown): FailurePlace {
    const place = this.#thrownAt(error);
    const proxy = hostOfFailedProxy(error);
    return proxy === undefined ? place : { ...place, host: proxy };
  }

  /** Returns the place of the innermost cause: an error about a failed commit wraps its cause. */
  #thrownAt(error: unknown): FailurePlace {
    let found = NO_PLACE;
    for (let current = error; current instanceof Error; current = current.cause) {
      // An error with a document phase may be recorded for several calls, because it aborts
      // concurrent requests, which then throw the same error.
      if (current instanceof EndpointError && current.documentPhase !== undefined) {
        return this.#placeOfDocument(current.documentPhase);
      }
      found = this.#places.get(current) ?? found;
    }
    return found;
  }

  #placeOfDocument(phase: "read" | "write"): FailurePlace {
    const side = phase === "read" ? "source" : "target";
    return { phase, side, host: this.#hosts.get(side) };
  }

  /** Notes only the innermost call: errors of the target pass through the source's streams. */
  #note(error: unknown, place: FailurePlace): void {
    if (error instanceof Error && !this.#places.has(error)) this.#places.set(error, place);
  }
}

class WatchedEndpoint implements Endpoint {
  readonly #inner: Endpoint;
  readonly #note: (error: unknown, phase: FailurePhase) => void;

  constructor(inner: Endpoint, note: (error: unknown, phase: FailurePhase) => void) {
    this.#inner = inner;
    this.#note = note;
  }

  get shownUrl(): string {
    return this.#inner.shownUrl;
  }

  get writesDurably(): boolean {
    return this.#inner.writesDurably;
  }

  get continuesLogs(): boolean {
    return this.#inner.continuesLogs;
  }

  get roundTripMs(): number | undefined {
    return this.#inner.roundTripMs;
  }

  create(...args: Parameters<Endpoint["create"]>): Promise<boolean> {
    return this.#noted("open", this.#inner.create(...args));
  }

  info(signal: AbortSignal): Promise<EndpointInfo> {
    return this.#noted("open", this.#inner.info(signal));
  }

  async *changes(
    request: ChangesRequest,
    signal: AbortSignal,
  ): AsyncIterable<readonly ChangesItem[]> {
    try {
      yield* this.#inner.changes(request, signal);
    } catch (error) {
      this.#note(error, "changes");
      throw error;
    }
  }

  pendingChangeCount(
    ...args: Parameters<Endpoint["pendingChangeCount"]>
  ): Promise<number | undefined> {
    return this.#noted("changes", this.#inner.pendingChangeCount(...args));
  }

  missingRevisions(
    ...args: Parameters<Endpoint["missingRevisions"]>
  ): ReturnType<Endpoint["missingRevisions"]> {
    return this.#noted("compare", this.#inner.missingRevisions(...args));
  }

  readRevisions(
    ...args: Parameters<Endpoint["readRevisions"]>
  ): Promise<readonly BulkReadResult[] | undefined> {
    return this.#noted("read", this.#inner.readRevisions(...args));
  }

  readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    return this.#noted("read", this.#inner.readRevision(request, consume, signal));
  }

  attachmentMd5(...args: Parameters<Endpoint["attachmentMd5"]>): Promise<string | undefined> {
    return this.#noted("read", this.#inner.attachmentMd5(...args));
  }

  readDocument(
    ...args: Parameters<Endpoint["readDocument"]>
  ): ReturnType<Endpoint["readDocument"]> {
    return this.#noted("filter", this.#inner.readDocument(...args));
  }

  writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    options?: { readonly once?: boolean },
  ): Promise<readonly WriteFailure[]> {
    return this.#noted("write", this.#inner.writeDocuments(documents, signal, options));
  }

  writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    return this.#noted("write", this.#inner.writeDocument(document, signal));
  }

  security(signal: AbortSignal): ReturnType<Endpoint["security"]> {
    return this.#noted("open", this.#inner.security(signal));
  }

  setSecurity(...args: Parameters<Endpoint["setSecurity"]>): Promise<void> {
    return this.#noted("open", this.#inner.setSecurity(...args));
  }

  readLocal(id: string, signal: AbortSignal): Promise<CheckpointDocument | undefined> {
    return this.#noted("checkpoint", this.#inner.readLocal(id, signal));
  }

  writeLocal(...args: Parameters<Endpoint["writeLocal"]>): Promise<string | undefined> {
    return this.#noted("checkpoint", this.#inner.writeLocal(...args));
  }

  continueLog(...args: Parameters<Endpoint["continueLog"]>): ReturnType<Endpoint["continueLog"]> {
    return this.#noted("checkpoint", this.#inner.continueLog(...args));
  }

  commit(signal: AbortSignal): Promise<string> {
    return this.#noted("checkpoint", this.#inner.commit(signal));
  }

  async #noted<T>(phase: FailurePhase, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      this.#note(error, phase);
      throw error;
    }
  }
}
