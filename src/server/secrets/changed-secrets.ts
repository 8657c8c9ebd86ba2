/** Sealed record of the session secrets that changed recently (`users/session-secrets.ts`). */
import { type Seal, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { ReadTransaction, Transaction, Watch } from "../../kv/index.ts";
import { CHANGED_SECRETS_KEY } from "../layout.ts";
import { isCurrentText, openText, sealText } from "./sealed-forms.ts";

const PLACE = "changed session secrets";

/**
 * Returns, for each secret, the time at which the secret was last set or last replaced by another.
 */
export async function readChangedSecrets(
  tx: ReadTransaction,
  seal: Seal,
): Promise<Map<string, number>> {
  const value = await tx.get(CHANGED_SECRETS_KEY);
  if (value === undefined) return new Map();
  return new Map(JSON.parse(openText(seal, utf8Decode(value), PLACE)));
}

export function writeChangedSecrets(
  tx: Transaction,
  seal: Seal,
  secrets: ReadonlyMap<string, number>,
): void {
  if (secrets.size === 0) tx.clear(CHANGED_SECRETS_KEY);
  else tx.set(CHANGED_SECRETS_KEY, utf8Encode(sealText(seal, JSON.stringify([...secrets]), PLACE)));
}

export function watchChangedSecrets(tx: Transaction): Watch {
  return tx.watch(CHANGED_SECRETS_KEY);
}

/**
 * Reseals the record with the current sealing key, if necessary. Returns whether the record was
 * resealed.
 */
export async function renewChangedSecrets(tx: Transaction, seal: Seal): Promise<boolean> {
  const value = await tx.get(CHANGED_SECRETS_KEY);
  if (value === undefined || isCurrentText(seal, utf8Decode(value))) return false;
  writeChangedSecrets(tx, seal, await readChangedSecrets(tx, seal));
  return true;
}
