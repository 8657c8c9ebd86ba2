/** `[alerts]`: which alerts are sent, and to which receiver; read on each use. */
import { ALERT_KINDS, type AlertKind } from "../../replicator/index.ts";
import { liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

const { choice, integer, parsed, someOf, text } = sectionOf("alerts");
/** Formats of messages to the receiver. */
export const ALERT_FORMATS = ["tandem", "alertmanager", "slack"] as const;
export type AlertFormat = (typeof ALERT_FORMATS)[number];
const KINDS_DEFAULT: readonly AlertKind[] = [
  "failing",
  "stalled",
  "left_behind",
  "lag",
  "rule_failing",
];

export const ALERT_SETTINGS = {
  url: parsed<string | undefined>("url", {
    default: undefined,
    defaultWords: "none",
    meaning:
      "an `http` or `https` URL without user and password; if unset, nothing is sent. Shown as `****`, and sealed in `local.ini`, because its path may be secret. [Egress rules](#where-replications-may-connect-to) apply",
    parse: parseUrl,
  }),
  secret: text("secret", undefined, {
    defaultWords: "none",
    meaning: "key that signs each message; shown as `****`, and sealed in `local.ini`",
  }),
  format: choice("format", "tandem", ALERT_FORMATS, {
    meaning:
      "format of the messages; for `alertmanager` the URL ends in `/api/v2/alerts`, for `slack` it is an incoming webhook",
  }),
  groupSec: integer("group_sec", 10, {
    min: 0,
    unit: "s",
    meaning: "minimum time between two messages with the same event, cause, host, rule and tags",
  }),
  kinds: someOf("events", KINDS_DEFAULT, ALERT_KINDS, {
    meaning: "events that trigger alerts",
  }),
  lagSec: integer("lag_sec", 300, {
    unit: "s",
    meaning: "lag above which the event `lag` is sent",
  }),
  timeoutSec: integer("timeout_sec", 10, {
    max: 300,
    unit: "s",
    meaning: "time limit for the receiver's answer",
  }),
};
export type AlertSettings = Values<typeof ALERT_SETTINGS>;

export function alertSettings(texts: SettingTexts): AlertSettings {
  return liveSettings(texts, ALERT_SETTINGS);
}

/**
 * Rejects a URL with a password, because the password would be visible wherever the URL is
 * displayed.
 */
function parseUrl(text: string) {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (isHttp && url.username === "" && url.password === "" && url.hash === "") {
    return { value: url.href };
  }
  return { expected: "an http or https URL without user, password and fragment", at: "…" };
}
