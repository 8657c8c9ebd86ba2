/**
 * The store's record of the ids of its keys: the sealing key, and all keys still needed. It
 * contains no key itself. Nodes read it at startup, so that a node without the right key fails to
 * start rather than failing later.
 */
import { assert, type Random, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction, Watch } from "../../kv/index.ts";
import { KEY_RECORD_KEY } from "../layout.ts";
import type { KeyRing } from "./key-ring.ts";
import { describeSource, type KeySource, KeySourceError, makeKeyFile } from "./key-source.ts";

const FORMAT = 1;

export interface KeyRecord {
  /** Id of the key used for sealing. */
  readonly sealingId: string;
  /** Ids of all keys that might be needed to open sealed values in the store, oldest first. */
  readonly inUse: readonly string[];
}

export async function readKeyRecord(tx: ReadTransaction): Promise<KeyRecord | undefined> {
  const value = await tx.get(KEY_RECORD_KEY);
  if (value === undefined) return undefined;
  const { format, sealingId, inUse } = JSON.parse(utf8Decode(value));
  assert(format === FORMAT, "The key record must have a supported format version");
  return { sealingId, inUse };
}

export function writeKeyRecord(tx: Transaction, { sealingId, inUse }: KeyRecord): void {
  tx.set(KEY_RECORD_KEY, utf8Encode(JSON.stringify({ format: FORMAT, sealingId, inUse })));
}

/**
 * Returns a watch that fires when the sealing key changes, or when an old key is no longer needed.
 */
export function watchKeyRecord(tx: Transaction): Watch {
  return tx.watch(KEY_RECORD_KEY);
}

export interface KeysParts {
  readonly random: Random;
  readonly kv: KeyValueStore;
  readonly ring: KeyRing;
  readonly source: KeySource;
}

/**
 * Finds the sealing key, and creates the first key of a store that has none. Throws a
 * KeySourceError that names the missing keys if a required key is missing.
 */
export async function establishKeys({ random, kv, ring, source }: KeysParts): Promise<void> {
  const known = await kv.read(readKeyRecord);
  if (known === undefined && ring.ids.length === 0) {
    assert(source.kind === "file", "A source without keys must be a file");
    if (source.isNamed) throw new KeySourceError(`${describeSource(source)} has no key`);
    makeKeyFile(source.path, random);
    ring.reload();
  }
  const record = await kv.transact(
    async (tx) => {
      const stored = await readKeyRecord(tx);
      if (stored !== undefined) return stored;
      const sealingId = ring.ids.at(-1) as string;
      const first: KeyRecord = { sealingId, inUse: [sealingId] };
      writeKeyRecord(tx, first);
      return first;
    },
    { whenUnknown: "retry" },
  );
  const missing = record.inUse.filter((id) => !ring.has(id));
  if (missing.length > 0) throw missingKeys(missing, source);
  ring.sealWith(record.sealingId);
}

function missingKeys(ids: readonly string[], source: KeySource): KeySourceError {
  const named = ids.length === 1 ? `the key ${ids[0]}` : `the keys ${ids.join(", ")}`;
  return new KeySourceError(
    `the secrets of this store are sealed with ${named}, which ${describeSource(source)} lacks: ` +
      "set TANDEM_SECRETS_KEY_FILE or [secrets] key_file to the key file that the nodes of this store used, or set TANDEM_SECRETS_KEY to the keys in that file",
  );
}
