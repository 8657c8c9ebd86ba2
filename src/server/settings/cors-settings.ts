/** `[cors]`, `[cors:HOST]` and `[chttpd] enable_cors`, read live. */
import {
  CORS_EXPOSED_HEADERS,
  CORS_HEADERS,
  CORS_METHODS,
  type CorsOf,
  type CorsSettings,
} from "../../api/index.ts";
import {
  booleanSetting,
  integerSetting,
  listSetting,
  liveSettings,
  readSetting,
  type Setting,
  type SettingsOf,
  type SettingTexts,
} from "./settings.ts";

const ENABLED: Setting<boolean> = {
  ...booleanSetting("chttpd", "enable_cors", false),
  former: booleanSetting("httpd", "enable_cors", false),
};

const SETTINGS: SettingsOf<CorsSettings> = {
  origins: lowerCased(listSetting("cors", "origins", [])),
  credentials: booleanSetting("cors", "credentials", false),
  methods: listSetting("cors", "methods", CORS_METHODS),
  headers: lowerCased(listSetting("cors", "headers", CORS_HEADERS)),
  exposedHeaders: lowerCased(listSetting("cors", "exposed_headers", CORS_EXPOSED_HEADERS)),
  maxAgeSec: integerSetting("cors", "max_age", 600, { min: 0 }),
};

export const CORS_SETTINGS: readonly Setting<unknown>[] = [
  ENABLED,
  ...Object.values<Setting<unknown>>(SETTINGS),
];

export function corsSettings(texts: SettingTexts): CorsOf {
  return (host) => {
    if (!readSetting(texts, ENABLED)) return undefined;
    const ofHost: SettingTexts = {
      get: (section, key) => texts.get(`cors:${host}`, key) ?? texts.get(section, key),
    };
    return liveSettings(ofHost, SETTINGS);
  };
}

function lowerCased(list: Setting<readonly string[]>): Setting<readonly string[]> {
  return { ...list, read: (text) => list.read(text).map((item) => item.toLowerCase()) };
}
