/**
 * An engine whose commits succeed or fail, but report an unknown result. Results follow the given
 * list; later commits are reported correctly.
 */
import { type Engine, type EngineTransaction, KeyValueError } from "../../../src/kv/index.ts";

export type Fate = "carried out" | "lost";

export function unknownCommits(engine: Engine, fates: Fate[]): Engine {
  return {
    name: engine.name,
    begin(attempt?: number): EngineTransaction {
      const inner = engine.begin(attempt);
      return {
        transaction: inner.transaction,
        effects: inner.effects,
        get hasWrites() {
          return inner.hasWrites;
        },
        async commit() {
          const fate = fates[0];
          if (fate === undefined) return inner.commit();
          if (fate === "carried out") await inner.commit();
          else inner.cancel();
          fates.shift();
          throw new KeyValueError("KV_UNKNOWN_COMMIT", { injected: fate });
        },
        cancel: () => inner.cancel(),
      };
    },
    close: () => engine.close(),
  };
}
