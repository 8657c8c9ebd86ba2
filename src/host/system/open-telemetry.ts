/**
 * Exports spans to an OpenTelemetry collector over OTLP, configured by the standard environment
 * variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
 * `OTEL_TRACES_SAMPLER`, …). The libraries are loaded only if a collector is configured.
 */
import type { SpanAttributes, SpanName, Spans } from "../../base/index.ts";

export interface OpenSpans {
  readonly spans: Spans;
  /** Flushes pending spans. */
  close(): Promise<void>;
}

/** Loads the exporter. Returns `undefined` if the environment configures no collector. */
export async function openSpans(
  environment: Readonly<Record<string, string | undefined>>,
  version: string,
): Promise<OpenSpans | undefined> {
  const isAsked =
    environment.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined ||
    environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT !== undefined;
  if (!isAsked || environment.OTEL_SDK_DISABLED === "true") return undefined;
  const [{ SpanKind, SpanStatusCode }, sdk, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/sdk-trace-node"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
  const provider = new sdk.NodeTracerProvider({
    resource: resourceFromAttributes({
      "service.name": environment.OTEL_SERVICE_NAME ?? "tandem",
      "service.version": version,
    }),
    spanProcessors: [new sdk.BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  const tracer = provider.getTracer("tandem", version);
  return {
    spans: {
      run: <Name extends SpanName, T>(
        name: Name,
        attributes: SpanAttributes[Name],
        work: () => Promise<T>,
      ): Promise<T> => {
        const kind = name === "http.request" ? SpanKind.CLIENT : SpanKind.INTERNAL;
        return tracer.startActiveSpan(
          name,
          { attributes: { ...attributes }, kind },
          async (span) => {
            try {
              return await work();
            } catch (error) {
              // The status contains the error's code rather than its message, which can quote a
              // server's response.
              const { code, name: kindOfError } = error as { code?: unknown; name?: string };
              span.setStatus({
                code: SpanStatusCode.ERROR,
                message: typeof code === "string" ? code : (kindOfError ?? "error"),
              });
              throw error;
            } finally {
              span.end();
            }
          },
        );
      },
    },
    close: () => provider.shutdown(),
  };
}
