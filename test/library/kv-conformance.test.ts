/** The conformance suite as users run it. It tests the declared features, and it can fail. */
import { afterAll, expect, test } from "vitest";
import {
  type Engine,
  type EngineTransaction,
  openMemoryEngine,
} from "../../src/library/entries/kv.ts";
import { FEATURES, kvConformance } from "../../src/library/entries/kv-conformance.ts";
import type { ConformanceSuite } from "../../src/library/kv-conformance/suite.ts";

const suites: ConformanceSuite[] = [];
afterAll(() => Promise.all(suites.map((suite) => suite.close())));

function suiteOf(engine: Engine, features: Parameters<typeof kvConformance>[0]["features"] = []) {
  const suite = kvConformance({ open: async () => ({ engine }), features, propertyRunCount: 2 });
  suites.push(suite);
  return suite;
}

/** Returns an engine whose transactions have some members replaced by those of `change`. */
function changedEngine(change: (attempt: EngineTransaction) => Partial<EngineTransaction>): Engine {
  const inner = openMemoryEngine();
  return {
    name: "changed",
    begin(attempt) {
      const begun = inner.begin(attempt);
      const changed = change(begun);
      return new Proxy(begun, {
        get: (target, name) => {
          const own = Reflect.get(changed, name) ?? Reflect.get(target, name, target);
          return typeof own === "function" ? own.bind(target) : own;
        },
      });
    },
    close: () => inner.close(),
  };
}

async function failuresOf({ cases }: ConformanceSuite): Promise<readonly string[]> {
  const failed: string[] = [];
  for (const { name, run } of cases) await run().catch(() => failed.push(name));
  return failed;
}

test("an engine that lacks a feature passes the tests of all other features", async () => {
  const refusal = () => {
    throw new Error("not supported");
  };
  const engine = changedEngine(({ transaction }) => ({
    transaction: new Proxy(transaction, {
      get(target, name) {
        if (name === "watch") return refusal;
        const own = Reflect.get(target, name, target);
        return typeof own === "function" ? own.bind(target) : own;
      },
    }),
  }));
  const features = FEATURES.filter((name) => name !== "watches" && name !== "read-version-age");
  expect(await failuresOf(suiteOf(engine, features))).toEqual([]);
});

test("an engine that lacks a declared feature fails the suite", async () => {
  const names = suiteOf(openMemoryEngine()).cases.map(({ name }) => name);
  for (const feature of FEATURES) {
    const all = suiteOf(openMemoryEngine(), [feature, "limits"]).cases.map(({ name }) => name);
    expect(all.length).toBeGreaterThan(names.length);
  }
  const failed = await failuresOf(suiteOf(openMemoryEngine(), ["limits", "read-version-age"]));
  expect(failed).toHaveLength(2);
  expect(failed.every((name) => /^limits: .*(too old|five seconds)/.test(name))).toBe(true);
});

test("an engine that loses commits fails the suite", async () => {
  let count = 0;
  const engine = changedEngine((attempt) => ({
    commit: async () => {
      if (!attempt.hasWrites || ++count % 7 !== 0) return attempt.commit();
      attempt.cancel();
      return { versionstamp: undefined };
    },
  }));
  expect((await failuresOf(suiteOf(engine))).length).toBeGreaterThan(0);
});
