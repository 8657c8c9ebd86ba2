/** The settings of the node that served the page. */
import type { NodeSettings, SettingRow } from "../../contract/index.ts";
import { get, request, segmentOf } from "./request.ts";

/** Placeholder that the node returns instead of a secret. */
export const HIDDEN_VALUE = "****";

export function readSettings(signal?: AbortSignal): Promise<NodeSettings> {
  return get<NodeSettings>("_tandem/settings", signal);
}

/** Returns a value with its unit, such as `500 jobs`; a text or `infinity` has none. */
export function withUnit(value: string, { unit }: Pick<SettingRow, "unit">): string {
  return unit !== null && /^[\d.]+$/.test(value) ? `${value} ${unit}` : value;
}

/** Describes the default of a setting in words. */
export function defaultOf(setting: SettingRow): string {
  const { default: value, default_words: words } = setting;
  return words ?? (value ? withUnit(value, setting) : "none");
}

type Place = Pick<SettingRow, "section" | "key">;

/** Changes a setting. Throws a RequestError if the node rejects the value. */
export async function setSetting(node: string, place: Place, value: string): Promise<void> {
  await request("PUT", pathOf(node, place), { body: value });
}

/** Restores the value from the node's files and environment, or the default. */
export async function resetSetting(node: string, place: Place): Promise<void> {
  await request("DELETE", pathOf(node, place));
}

/**
 * Returns the path of a setting. It contains the name of the node, because a proxy could pass the
 * request to another node, which would then change its own setting.
 */
function pathOf(node: string, { section, key }: Place): string {
  return `_node/${[node, "_config", section, key].map(segmentOf).join("/")}`;
}
