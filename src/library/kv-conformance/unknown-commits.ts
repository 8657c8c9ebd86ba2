/**
 * An engine whose first commits report an unknown outcome. For each of them, `outcomes` determines
 * whether the commit actually succeeds. Later commits are reported correctly.
 */
import { type Engine, type EngineTransaction, KeyValueError } from "../../kv/index.ts";

export type CommitOutcome = "carried out" | "lost";

export function unknownCommits(engine: Engine, outcomes: CommitOutcome[]): Engine {
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
          const outcome = outcomes[0];
          if (outcome === undefined) return inner.commit();
          if (outcome === "carried out") await inner.commit();
          else inner.cancel();
          outcomes.shift();
          throw new KeyValueError("KV_UNKNOWN_COMMIT", { injected: outcome });
        },
        cancel: () => inner.cancel(),
      };
    },
    close: () => engine.close(),
  };
}
