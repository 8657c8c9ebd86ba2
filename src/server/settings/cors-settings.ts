/** `[cors]`, `[cors:HOST]` and `[chttpd] enable_cors`, read on each use. */
import {
  CORS_EXPOSED_HEADERS,
  CORS_HEADERS,
  CORS_METHODS,
  type CorsOf,
  type CorsSettings,
} from "../../api/index.ts";
import {
  liveSettings,
  readSetting,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  sectionOf,
} from "./settings.ts";

export const CORS_ENABLED = sectionOf("chttpd", { former: "httpd" }).flag("enable_cors", false, {
  meaning: "whether `[cors]` and `[cors:HOST]` apply",
});

const { flag, integer, list } = sectionOf("cors");

export const CORS_SETTINGS: SettingsOf<CorsSettings> = {
  origins: lowerCased(
    list("origins", [], {
      defaultWords: "none",
      meaning: "origins that may read responses; `*` allows all",
    }),
  ),
  credentials: flag("credentials", false, { meaning: "whether requests may have credentials" }),
  methods: list("methods", CORS_METHODS, { meaning: "methods of requests" }),
  headers: lowerCased(list("headers", CORS_HEADERS, { meaning: "headers of requests" })),
  exposedHeaders: lowerCased(
    list("exposed_headers", CORS_EXPOSED_HEADERS, { meaning: "headers of answers" }),
  ),
  maxAgeSec: integer("max_age", 600, {
    min: 0,
    unit: "s",
    meaning: "time for which browsers may cache preflight responses",
  }),
};

export function corsSettings(texts: SettingTexts): CorsOf {
  return (host) => {
    if (!readSetting(texts, CORS_ENABLED)) return undefined;
    const ofHost: SettingTexts = {
      get: (section, key) => texts.get(`cors:${host}`, key) ?? texts.get(section, key),
    };
    return liveSettings(ofHost, CORS_SETTINGS);
  };
}

function lowerCased(list: Setting<readonly string[]>): Setting<readonly string[]> {
  return { ...list, read: (text) => list.read(text).map((item) => item.toLowerCase()) };
}
