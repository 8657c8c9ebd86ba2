/** A store whose transactions write nothing but what their bodies do: for tests that look at all of it, or count. */
import { KeyValueStore, type Transaction, type TransactOptions } from "../../../src/kv/index.ts";

export class PlainStore extends KeyValueStore {
  override transact<T>(
    body: (tx: Transaction) => Promise<T>,
    options: TransactOptions = {},
  ): Promise<T> {
    return super.transact(body, { whenUnknown: "throw", ...options });
  }
}
