/** The settings of the node that the page came from. */
import type { NodeSettings, SettingRow } from "../../contract/index.ts";
import { get, request, segmentOf } from "./request.ts";

/** What the node answers in place of a secret. */
export const HIDDEN_VALUE = "****";

export function readSettings(signal?: AbortSignal): Promise<NodeSettings> {
  return get<NodeSettings>("_tandem/settings", signal);
}

type Place = Pick<SettingRow, "section" | "key">;

/** Throws a RequestError when the node refuses the value. */
export async function setSetting(node: string, place: Place, value: string): Promise<void> {
  await request("PUT", pathOf(node, place), { body: value });
}

/** What the files and the environment of the node say counts again, or else the default. */
export async function resetSetting(node: string, place: Place): Promise<void> {
  await request("DELETE", pathOf(node, place));
}

/** The node is named, so that no other answers behind a proxy. */
function pathOf(node: string, { section, key }: Place): string {
  return `_node/${[node, "_config", section, key].map(segmentOf).join("/")}`;
}
