/** The settings of the node that the page came from. */
import { get } from "./request.ts";

export interface SettingRow {
  readonly section: string;
  readonly key: string;
  /** Null: nobody has set it. */
  readonly value: string | null;
  /** Null: it has none. */
  readonly default: string | null;
  /** Whether the node has a use for it. */
  readonly known: boolean;
}

export async function readSettings(signal: AbortSignal): Promise<readonly SettingRow[]> {
  return (await get<{ settings: SettingRow[] }>("_tandem/settings", signal)).settings;
}
