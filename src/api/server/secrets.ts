/** `/_tandem/secrets`: the keys that seal secrets in the store, and how they are changed. CouchDB has no counterpart. */
import type { SecretsStatus } from "../../contract/index.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** The keys of a node's store, by their ids. No key is shown. */
export interface SecretKeys {
  status(): Promise<SecretKeysStatus>;
  /** Begins to seal everything with a new key, or goes on with it; returns when the new key seals. */
  begin(): Promise<void>;
}

export interface SecretKeysStatus {
  readonly record: {
    /** The key that seals. */
    readonly sealingId: string;
    /** Those that the store needs, oldest first. */
    readonly inUse: readonly string[];
  };
  /** Those that this node has. */
  readonly hereIds: readonly string[];
  /** Where this node has its keys from. */
  readonly source: string;
  readonly rotation: {
    readonly state: string;
    readonly seenCount: number;
    readonly renewedCount: number;
    readonly unneededIds: readonly string[];
    readonly error: string | undefined;
  };
}

export function secretsRoutes(keys: SecretKeys): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/secrets", OPERATIONS, async () =>
      json(200, view(await keys.status())),
    ),
    defineRoute("POST", "/_tandem/secrets/_rotate", OPERATIONS, async () => {
      await keys.begin();
      return json(202, view(await keys.status()));
    }),
  ];
}

function view({ record, hereIds, source, rotation }: SecretKeysStatus): SecretsStatus {
  return {
    sealing_key: record.sealingId,
    keys_in_use: record.inUse,
    keys_here: hereIds,
    keys_from: source,
    rotation: {
      state: rotation.state,
      seen: rotation.seenCount,
      renewed: rotation.renewedCount,
      unneeded_keys: rotation.unneededIds,
      error: rotation.error ?? null,
    },
  };
}
