/**
 * Short requests to a Tandem server are batched over real connections (decision 304), and are sent
 * individually if batching fails.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type HttpProxy,
  type Intercept,
  openHttpProxy,
  type ProxiedRequest,
} from "../support/faults/http-proxy.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";

const PAIR_COUNT = 12;
const IDS = ["one", "two", "three"];

const processes = new Processes();
const proxies: HttpProxy[] = [];
let there: TandemNode;

beforeAll(async () => {
  there = await processes.openHere();
});
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await processes.close();
});

const isBatch = ({ path }: ProxiedRequest): boolean => path.endsWith("/_tandem/_batch");

/**
 * Copies a dozen databases of a server into other databases of the same server, concurrently.
 * Returns the requests to the server.
 */
async function copyPairs(name: string, intercept?: Intercept): Promise<readonly ProxiedRequest[]> {
  // A separate node, which does not share what other nodes have learned about the server.
  const here = await processes.openHere();
  const proxy = await openHttpProxy(there.url, { takesBatches: true });
  proxies.push(proxy);
  if (intercept !== undefined) proxy.intercept(intercept);
  const numbers = Array.from({ length: PAIR_COUNT }, (_, number) => number);
  const docs = IDS.map((_id) => ({ _id }));
  for (const number of numbers) {
    await there.call("PUT", `/${name}-${number}`);
    await there.call("POST", `/${name}-${number}/_bulk_docs`, { docs });
  }
  const copies = await Promise.all(
    numbers.map((number) =>
      here.call("POST", "/_replicate", {
        source: `${proxy.url}/${name}-${number}`,
        target: `${proxy.url}/${name}-copy-${number}`,
        create_target: true,
      }),
    ),
  );
  for (const { status, body } of copies) {
    expect({ status, ok: body.ok }).toEqual({ status: 200, ok: true });
  }
  for (const number of numbers) {
    const { body } = await there.call("GET", `/${name}-copy-${number}/_all_docs`);
    expect(body.rows.map(({ id }: { id: string }) => id).toSorted()).toEqual(IDS.toSorted());
  }
  await here.stop();
  return proxy.requests;
}

test("short requests that jobs send to the same server are batched", async () => {
  const requests = await copyPairs("together");
  expect(requests.filter(isBatch).length).toBeGreaterThan(0);
});

test.each<[string, Intercept]>([
  ["resets", async (request, forward) => cut(await forward(request), "reset")],
  ["ends too early", async (request, forward) => cut(await forward(request), "end")],
  ["garbles", async (request, forward) => ({ ...(await forward(request)), body: "<html></html>" })],
  ["refuses", async () => ({ status: 413, body: "<html>Too large</html>" })],
  ["redirects", async () => ({ status: 302, headers: { location: "/_up" }, body: "" })],
])("jobs succeed even if a proxy between the servers %s batches", async (way, broken) => {
  const requests = await copyPairs(way.replaceAll(" ", "-"), (request, forward) =>
    isBatch(request) ? broken(request, forward) : forward(request),
  );
  expect(requests.filter(isBatch).length).toBeGreaterThan(0);
});

function cut(answer: Awaited<ReturnType<Intercept>>, how: "reset" | "end") {
  return { ...answer, cut: { afterBytes: Math.floor(answer.body.length / 2), how } };
}
