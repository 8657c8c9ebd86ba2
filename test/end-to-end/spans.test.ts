/** OpenTelemetry spans, as a node sends them to a collector. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { Processes } from "../support/open-process.ts";

const processes = new Processes();
const servers: Server[] = [];
afterAll(async () => {
  await processes.close();
  for (const server of servers) server.close();
});

interface Span {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
}

interface Collector {
  readonly url: string;
  readonly spans: Span[];
  readonly services: Set<unknown>;
}

async function openCollector(): Promise<Collector> {
  const spans: Span[] = [];
  const services = new Set<unknown>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { resourceSpans } = JSON.parse(Buffer.concat(chunks).toString());
    for (const { resource, scopeSpans } of resourceSpans) {
      services.add(JSON.stringify(resource.attributes));
      for (const scope of scopeSpans) spans.push(...scope.spans);
    }
    response.setHeader("Content-Type", "application/json");
    response.end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  servers.push(server);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, services };
}

test("runs, their batches and the requests of the batches are nested spans without secrets", async () => {
  const collector = await openCollector();
  const node = await processes.open({
    environment: {
      COUCHDB_USER: "anna",
      COUCHDB_PASSWORD: "s3cret",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_SERVICE_NAME: "copies",
    },
  });
  const ask = async (method: string, path: string, body?: object) => {
    const authorization = `Basic ${Buffer.from("anna:s3cret").toString("base64")}`;
    const headers = { authorization, "content-type": "application/json" };
    const asked = {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    return (await fetch(node.url + path, asked)).status;
  };
  await ask("PUT", "/source");
  await ask("POST", "/source/_bulk_docs", { docs: [{ _id: "a" }, { _id: "b" }] });
  const target = `${node.url.replace("//", "//anna:s3cret@")}/target`;
  const copy = { source: "source", target, create_target: true };
  expect(await ask("POST", "/_replicate", copy)).toBe(200);
  // When a node stops, it sends its pending spans.
  expect(await node.stop()).toBe(0);
  const named = (name: string) => collector.spans.filter((span) => span.name === name);
  const [run] = named("replication.run");
  const [batch] = named("replication.batch");
  const requests = named("http.request");
  expect(batch?.parentSpanId).toBe(run?.spanId);
  expect(batch?.attributes).toEqual([{ key: "replication.documents", value: { intValue: 2 } }]);
  const parents = new Set(requests.map(({ parentSpanId }) => parentSpanId));
  expect(parents).toEqual(new Set([run?.spanId, batch?.spanId]));
  expect(requests.every(({ kind }) => kind === 3)).toBe(true);
  const methods = requests.map(({ attributes }) => JSON.stringify(attributes));
  expect(methods).toContainEqual(expect.stringMatching(/POST.*\/target\/_bulk_docs"/));
  expect(JSON.stringify(collector.spans)).not.toContain("s3cret");
  expect([...collector.services]).toEqual([expect.stringContaining('"copies"')]);
});
