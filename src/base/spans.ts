/**
 * Spans: what a process does, from when to when and on whose behalf, for whoever collects them (OpenTelemetry). A span that begins
 * within another one is its child, across everything that is awaited.
 */

/** Which spans there are, with their attributes. Values never hold secrets. */
export interface SpanAttributes {
  /** A run of a job, or of a command. Endpoints as people see them. */
  "replication.run": {
    readonly "replication.id": string;
    readonly "replication.source": string;
    readonly "replication.target": string;
  };
  /** Changes that a copier took at once. */
  "replication.batch": { readonly "replication.documents": number };
  /** A request to an endpoint, until the head of its answer. */
  "http.request": { readonly "http.request.method": string; readonly "url.full": string };
}

export type SpanName = keyof SpanAttributes;

export interface Spans {
  /** Runs `work` within a span, which fails when `work` does. */
  run<Name extends SpanName, T>(
    name: Name,
    attributes: SpanAttributes[Name],
    work: () => Promise<T>,
  ): Promise<T>;
}

/** Runs `work` within a span, where somebody collects them: `spans` is a runtime's. */
export function inSpan<Name extends SpanName, T>(
  spans: Spans | undefined,
  name: Name,
  attributes: () => SpanAttributes[Name],
  work: () => Promise<T>,
): Promise<T> {
  return spans === undefined ? work() : spans.run(name, attributes(), work);
}
