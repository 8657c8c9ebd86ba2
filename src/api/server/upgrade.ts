/** `/_tandem/upgrade`: the format of the store. CouchDB has no counterpart. */
import type { UpgradeStatus } from "../../contract/index.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Reads the format of the store, and enables a higher one. */
export interface StoreFormats {
  status(): Promise<UpgradeStatus>;
  /**
   * Enables the highest format that all nodes support. Throws FORMAT_NOT_ENABLED if a node supports
   * no higher format than the current one.
   */
  enable(): Promise<UpgradeStatus>;
}

export function upgradeRoutes(formats: StoreFormats): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/upgrade", OPERATIONS, async () =>
      json(200, await formats.status()),
    ),
    defineRoute("POST", "/_tandem/upgrade/_enable", OPERATIONS, async () =>
      json(200, await formats.enable()),
    ),
  ];
}
