/** One shape of key that a layer stores: a line of `docs/keyspace.md`. Each `*-keys.ts` exports its list as `…_KEY_SHAPES`. */
export interface KeyShape {
  /** The tuple below the layer's subspace, as the code names its parts: `(DATA, type, id)`. */
  readonly key: string;
  /** What is stored there. */
  readonly value: string;
  /** Order, lifetime or whatever else a reader of the raw store has to know; empty when nothing is surprising. */
  readonly note: string;
}
