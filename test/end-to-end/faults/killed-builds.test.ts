/**
 * A process is killed while it builds an index. The next process finishes the build, and the store
 * has every entry.
 */
import { afterAll, expect, test } from "vitest";
import { Processes } from "../../support/open-process.ts";

const DOCUMENT_COUNT = 6_000;
const BATCH_COUNT = 1_000;

const processes = new Processes();
afterAll(() => processes.close());

test("the next process finishes the index build of a killed process", async () => {
  const directory = processes.directory();
  const first = await processes.open({ directory });
  await first.call("PUT", "/films");
  for (let start = 0; start < DOCUMENT_COUNT; start += BATCH_COUNT) {
    const docs = Array.from({ length: BATCH_COUNT }, (_, n) => ({
      _id: `d${start + n}`,
      n: start + n,
    }));
    await first.call("POST", "/films/_bulk_docs", { docs });
  }
  const index = { fields: ["n"] };
  expect((await first.call("POST", "/films/_index", { index })).body.result).toBe("created");
  await first.kill();
  const second = await processes.open({ directory });
  const query = { selector: { n: { $gte: 0 } }, sort: [{ n: "desc" }], fields: ["n"] };
  const { body } = await second.call("POST", "/films/_find", { ...query, limit: 10_000 });
  expect(body.docs.map(({ n }: { readonly n: number }) => n)).toEqual(
    Array.from({ length: DOCUMENT_COUNT }, (_, n) => DOCUMENT_COUNT - 1 - n),
  );
});
