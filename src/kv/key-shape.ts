/**
 * Documentation for one kind of key: a row of `docs/keyspace.md`. Each `*-keys.ts` exports a list
 * of them as `…_KEY_SHAPES`.
 */
export interface KeyShape {
  /** The tuple below the layer's subspace, with the names used in the code: `(DATA, type, id)`. */
  readonly key: string;
  /** Description of the stored value. */
  readonly value: string;
  /** Order, lifetime and anything else that a reader of the raw store needs; can be empty. */
  readonly note: string;
}
