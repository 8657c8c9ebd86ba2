/**
 * `/_tandem/secrets`: the keys that seal secrets in the store, and their rotation. CouchDB has no
 * counterpart.
 */
import type { SecretsStatus } from "../../contract/index.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Ids of the sealing keys of a node's store. The keys themselves are not exposed. */
export interface SecretKeys {
  status(): Promise<SecretKeysStatus>;
  /**
   * Starts or resumes re-encryption of all secrets with a new sealing key. Resolves when new
   * secrets are sealed with that key.
   */
  begin(): Promise<void>;
}

export interface SecretKeysStatus {
  readonly record: {
    /** Id of the key used for sealing. */
    readonly sealingId: string;
    /** Ids of the sealing keys that the store's secrets require, oldest first. */
    readonly inUse: readonly string[];
  };
  /** Ids of the sealing keys available to this node. */
  readonly hereIds: readonly string[];
  /** Source of this node's sealing keys. */
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
