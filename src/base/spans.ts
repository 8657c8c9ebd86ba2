/**
 * Tracing spans (OpenTelemetry). A span started within another span is its child, also across
 * awaits.
 */

/** All spans with their attributes. Values never contain secrets. */
export interface SpanAttributes {
  /** A run of a job, or of a command. Endpoints are given in display form. */
  "replication.run": {
    readonly "replication.id": string;
    readonly "replication.source": string;
    readonly "replication.target": string;
  };
  /** A batch of changes processed by a copier. */
  "replication.batch": { readonly "replication.documents": number };
  /** A request to an endpoint, until the response headers arrive. */
  "http.request": { readonly "http.request.method": string; readonly "url.full": string };
}

export type SpanName = keyof SpanAttributes;

export interface Spans {
  /** Runs `work` within a span. If `work` fails, the span is marked as failed. */
  run<Name extends SpanName, T>(
    name: Name,
    attributes: SpanAttributes[Name],
    work: () => Promise<T>,
  ): Promise<T>;
}

/** Runs `work` within a span if spans are collected. */
export function inSpan<Name extends SpanName, T>(
  spans: Spans | undefined,
  name: Name,
  attributes: () => SpanAttributes[Name],
  work: () => Promise<T>,
): Promise<T> {
  return spans === undefined ? work() : spans.run(name, attributes(), work);
}
