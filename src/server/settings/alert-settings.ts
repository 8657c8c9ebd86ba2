/** `[alerts]`: where alerts about jobs are sent, and which; read live. */
import { ALERT_KINDS, type AlertKind } from "../../replicator/index.ts";
import {
  integerSetting,
  listSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  textSetting,
  unusable,
} from "./settings.ts";

export interface AlertSettings {
  /** `http` or `https`; undefined: nothing is sent. */
  readonly url: string | undefined;
  /** Signs what is sent; undefined: it is not signed. */
  readonly secret: string | undefined;
  readonly kinds: readonly AlertKind[];
  /** A job that is behind for so long is told of. */
  readonly lagSec: number;
  /** For how long the receiver may be silent. */
  readonly timeoutSec: number;
}

const SECTION = "alerts";
const KINDS_DEFAULT: readonly AlertKind[] = ["failing", "stalled", "left_behind", "lag"];

const SETTINGS: SettingsOf<AlertSettings> = {
  url: { section: SECTION, key: "url", read: readUrl },
  secret: textSetting(SECTION, "secret", undefined),
  kinds: { section: SECTION, key: "events", read: readKinds },
  lagSec: integerSetting(SECTION, "lag_sec", 300),
  timeoutSec: integerSetting(SECTION, "timeout_sec", 10, { max: 300 }),
};

export const ALERT_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function alertSettings(texts: SettingTexts): AlertSettings {
  return liveSettings(texts, SETTINGS);
}

/** A password would be no secret in a URL that is shown. */
function readUrl(text: string | undefined): string | undefined {
  if (text === undefined || text === "") return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (isHttp && url.username === "" && url.password === "" && url.hash === "") return url.href;
  const expected = "an http or https URL without user, password and fragment";
  throw unusable({ section: SECTION, key: "url" }, "…", expected);
}

function readKinds(text: string | undefined): readonly AlertKind[] {
  const names = listSetting(SECTION, "events", KINDS_DEFAULT).read(text || undefined);
  const kinds = ALERT_KINDS.filter((kind) => names.includes(kind));
  if (kinds.length === new Set(names).size) return kinds;
  const expected = `a list of ${ALERT_KINDS.join(", ")}`;
  throw unusable({ section: SECTION, key: "events" }, text ?? "", expected);
}
