/**
 * A store that adds no rows of its own to those that transactions write. Tests use it to inspect or
 * count all rows.
 */
import { KeyValueStore, type Transaction, type TransactOptions } from "../../kv/index.ts";

export class PlainStore extends KeyValueStore {
  override transact<T>(
    body: (tx: Transaction) => Promise<T>,
    options: TransactOptions = {},
  ): Promise<T> {
    return super.transact(body, { whenUnknown: "throw", ...options });
  }
}
