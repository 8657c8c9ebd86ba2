/** A setting of the scheduler is changed while a node runs. */
import { expect, test } from "vitest";
import { openServer, readConfig } from "../../../src/server/index.ts";

// The scheduler also wakes by itself when the prepaid fair share is used up. The test's limit is
// shorter, so that only the changed setting can start the job in time.
test("raising max_jobs starts a waiting job without an additional scheduler cycle", {
  timeout: 10_000,
}, async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  config.configuration.set("replicator", "max_jobs", "1");
  config.configuration.set("replicator", "interval_sec", "3600");
  const accepted: (() => void)[] = [];
  const accepting = [1, 2].map(() => new Promise<void>((resolve) => void accepted.push(resolve)));
  const server = await openServer(config, {
    event: (name) => {
      if (name === "replication.accepted") accepted.shift()?.();
    },
  });
  const put = async (path: string, body: object): Promise<void> => {
    const response = await fetch(`${server.url}${path}`, {
      method: "PUT",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(201);
  };
  try {
    for (const name of ["a", "b", "c"]) await put(`/${name}`, {});
    await put("/_replicator/first", { source: "a", target: "b", continuous: true });
    await accepting[0];
    await put("/_replicator/second", { source: "a", target: "c", continuous: true });
    config.configuration.set("replicator", "max_jobs", "2");
    await accepting[1];
  } finally {
    await server.stop();
  }
});
