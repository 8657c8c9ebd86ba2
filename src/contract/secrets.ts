/** Keys that seal secrets in the store (`docs/api/secrets.md`), identified by id. */
import { count, described, exactly, listOf, nullable, type Shape, text } from "./schema.ts";

export const SecretsStatus = exactly({
  sealing_key: text,
  keys_in_use: described(
    listOf(text),
    "ids of the sealing keys that the store's secrets require, oldest first",
  ),
  keys_here: listOf(text),
  keys_from: text,
  rotation: exactly({
    state: text,
    seen: count,
    renewed: count,
    unneeded_keys: listOf(text),
    error: nullable(text),
  }),
});
export type SecretsStatus = Shape<typeof SecretsStatus>;
