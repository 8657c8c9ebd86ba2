/**
 * Sends spans to an OpenTelemetry collector over OTLP. The environment says where it is and how it is spoken to
 * (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …), as the
 * specification of OpenTelemetry has it. Nothing of it is loaded by a process that sends none.
 */
import type { SpanAttributes, SpanName, Spans } from "../../base/index.ts";

export interface OpenSpans {
  readonly spans: Spans;
  /** Sends what was collected. */
  close(): Promise<void>;
}

/** Undefined where the environment names no collector. */
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
              // The message of an error may quote what a server said; the code is ours.
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
