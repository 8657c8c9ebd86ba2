/** Determines where a run failed, by recording the errors of calls to its endpoints. */
import {
  type Endpoint,
  EndpointError,
  type EndpointReader,
  type EndpointWriter,
} from "../endpoints/endpoint.ts";
import { type FailurePhase, type FailurePlace, NO_PLACE } from "../jobs/failing.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { hostOfFailedProxy } from "./failure.ts";

export class FailurePlaces {
  readonly #places = new WeakMap<object, FailurePlace>();
  readonly #hosts = new Map<FailurePlace["side"], string | undefined>();

  /** Wraps an endpoint so that errors of its calls are recorded. */
  watch(endpoint: Endpoint, side: "source" | "target", address: EndpointAddress): Endpoint {
    const host = address.kind === "http" ? validEndpointUrl(address)?.host : undefined;
    this.#hosts.set(side, host);
    return watched(endpoint, (error, phase) => this.#note(error, { phase, side, host }));
  }

  /**
   * Records the place of a failure to read the source's filter, for example because the filter is
   * missing.
   */
  async ofFilter<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      this.#note(error, { phase: "filter", side: "source", host: this.#hosts.get("source") });
      throw error;
    }
  }

  /**
   * Returns the place where the error, or one of its causes, was thrown. If a proxy failed, the
   * host is that of the proxy.
   */
  of(error: unknown): FailurePlace {
    const place = this.#thrownAt(error);
    const proxy = hostOfFailedProxy(error);
    return proxy === undefined ? place : { ...place, host: proxy };
  }

  /**
   * Returns the place of the innermost cause, because an error can wrap the error that caused it,
   * for example a failed commit.
   */
  #thrownAt(error: unknown): FailurePlace {
    let found = NO_PLACE;
    for (let current = error; current instanceof Error; current = current.cause) {
      // An error with a document phase can be recorded for several calls: it aborts concurrent
      // requests, which then throw the same error.
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

  /**
   * Records the place of an error, unless it has one: the innermost call determines the place. For
   * example, an error of the target can pass through the source's streams.
   */
  #note(error: unknown, place: FailurePlace): void {
    if (error instanceof Error && !this.#places.has(error)) this.#places.set(error, place);
  }
}

type Calls = Endpoint & EndpointReader & EndpointWriter;

type Method = {
  [Name in keyof Calls]-?: Calls[Name] extends (...args: never[]) => Promise<unknown>
    ? Name
    : never;
}[keyof Calls];

/** Phase of the run in which each method of an endpoint, a reader or a writer is called. */
const PHASES: Readonly<Record<Method, FailurePhase>> = {
  create: "open",
  info: "open",
  security: "open",
  setSecurity: "open",
  pendingChangeCount: "changes",
  missingRevisions: "compare",
  readRevisions: "read",
  readRevision: "read",
  attachmentMd5: "read",
  readDocument: "filter",
  writeDocuments: "write",
  writeDocument: "write",
  readLocal: "checkpoint",
  writeLocal: "checkpoint",
  continueLog: "checkpoint",
  commit: "checkpoint",
};

type Note = (error: unknown, phase: FailurePhase) => void;

function watched<Part extends object>(part: Part, note: Note): Part {
  return new Proxy(part, {
    get(inner, name) {
      const member: unknown = Reflect.get(inner, name, inner);
      if (name === "reader" || name === "writer") return watched(member as object, note);
      if (typeof member !== "function") return member;
      const call = (args: readonly unknown[]) => Reflect.apply(member, inner, args);
      if (name === "changes") return (...args: unknown[]) => watchedChanges(call(args), note);
      return async (...args: unknown[]) => {
        try {
          return await call(args);
        } catch (error) {
          note(error, PHASES[name as Method]);
          throw error;
        }
      };
    },
  });
}

async function* watchedChanges(changes: AsyncIterable<unknown>, note: Note) {
  try {
    yield* changes;
  } catch (error) {
    note(error, "changes");
    throw error;
  }
}
