/**
 * An engine on which every transaction body runs at least twice, because the first commit of each
 * transaction fails with a conflict.
 */
import { type Engine, type EngineTransaction, KeyValueError } from "../../../src/kv/index.ts";

export function spuriousConflicts(engine: Engine): Engine {
  return {
    name: engine.name,
    begin(attempt = 0): EngineTransaction {
      const inner = engine.begin(attempt);
      if (attempt > 0) return inner;
      return {
        transaction: inner.transaction,
        effects: inner.effects,
        get hasWrites() {
          return inner.hasWrites;
        },
        async commit() {
          inner.cancel();
          throw new KeyValueError("KV_CONFLICT", { injected: true });
        },
        cancel: () => inner.cancel(),
      };
    },
    close: () => engine.close(),
  };
}
