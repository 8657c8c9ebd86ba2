/** Subspaces of the layers, and the store's own records of its format and secrets. */
import { type Runtime, randomHex, type Seal, utf8Decode, utf8Encode } from "../base/index.ts";
import { type KeyShape, type KeyValueStore, Subspace, type Transaction } from "../kv/index.ts";
import { isCurrentText, openText, sealText } from "./secrets/sealed-forms.ts";

const ROOT = Subspace.fromTuple(["tandem"]);
const SERVER = ROOT.subspace(0);

export const SUBSPACES = {
  jobs: ROOT.subspace(1),
  databases: ROOT.subspace(2),
  replicator: ROOT.subspace(3),
} as const;

/** Key of the store's format (`formats.ts`). */
export const LAYOUT_KEY = SERVER.pack([0]);
const UUID_KEY = SERVER.pack([1]);

const SESSION_SECRET_KEY = SERVER.pack([2]);
const SESSION_SECRET_PLACE = "session secret";
/** Record of the keys that seal the store's secrets (`secrets/key-record.ts`). */
export const KEY_RECORD_KEY = SERVER.pack([3]);
/** Progress of the per-user databases (`users/user-databases.ts`). */
export const USER_DATABASES_KEY = SERVER.pack([4]);
/** Progress of the rounds through all databases (`reclaim-rounds.ts`). */
export const RECLAIM_ROUND_KEY = SERVER.pack([5]);
/** Session secrets that changed recently (`secrets/changed-secrets.ts`). */
export const CHANGED_SECRETS_KEY = SERVER.pack([6]);
/** Progress of the rounds that purge deleted documents (`auto-purger.ts`). */
export const AUTO_PURGE_ROUND_KEY = SERVER.pack([7]);

export const SERVER_KEY_SHAPES: readonly KeyShape[] = [
  { key: '("tandem", 0, 0)', value: "text", note: "the format of the store; watched" },
  { key: '("tandem", 0, 1)', value: "text", note: "the uuid of the cluster" },
  { key: '("tandem", 0, 2)', value: "text", note: "the secret that signs sessions, sealed" },
  { key: '("tandem", 0, 3)', value: "KeyRecord", note: "the ids of the keys that seal secrets" },
  {
    key: '("tandem", 0, 4)',
    value: "JSON",
    note: "last change of `_users` for which user databases were updated; absent before the first",
  },
  {
    key: '("tandem", 0, 5)',
    value: "JSON",
    note: "start of the current round through all databases, and the round's last claimed database",
  },
  {
    key: '("tandem", 0, 6)',
    value: "text",
    note: "session secrets that changed within the lifetime of a session, sealed; watched",
  },
  {
    key: '("tandem", 0, 7)',
    value: "JSON",
    note: "start of the current round of purges by age, and the round's last claimed database",
  },
];

/**
 * Returns the uuid of the cluster: the configured one, or else one that is generated and stored.
 */
export async function clusterUuid(
  { random }: Runtime,
  kv: KeyValueStore,
  configured: string | undefined,
): Promise<string> {
  if (configured !== undefined) return configured;
  return kv.transact(
    async (tx) => {
      const stored = await tx.get(UUID_KEY);
      if (stored !== undefined) return utf8Decode(stored);
      const uuid = randomHex(random);
      tx.set(UUID_KEY, utf8Encode(uuid));
      return uuid;
    },
    { whenUnknown: "retry" },
  );
}

/**
 * Returns the generated session key, which is used if the configuration sets none. The key is
 * stored, so that sessions survive restarts and are valid on every node.
 */
export async function sessionSecret(
  { random }: Runtime,
  kv: KeyValueStore,
  seal: Seal,
): Promise<string> {
  return kv.transact(
    async (tx) => {
      const stored = await tx.get(SESSION_SECRET_KEY);
      if (stored !== undefined) return openText(seal, utf8Decode(stored), SESSION_SECRET_PLACE);
      const secret = randomHex(random);
      setSessionSecret(tx, seal, secret);
      return secret;
    },
    { whenUnknown: "retry" },
  );
}

/**
 * Reseals the session key with the current sealing key, if necessary. Returns whether the session
 * key was resealed.
 */
export async function renewSessionSecret(tx: Transaction, seal: Seal): Promise<boolean> {
  const value = await tx.get(SESSION_SECRET_KEY);
  if (value === undefined) return false;
  const stored = utf8Decode(value);
  if (isCurrentText(seal, stored)) return false;
  setSessionSecret(tx, seal, openText(seal, stored, SESSION_SECRET_PLACE));
  return true;
}

function setSessionSecret(tx: Transaction, seal: Seal, secret: string): void {
  tx.set(SESSION_SECRET_KEY, utf8Encode(sealText(seal, secret, SESSION_SECRET_PLACE)));
}
