/** `[tandem] metric_tags`: tags that metrics and alerts include; read on each use. */
import { isTagName } from "../../replicator/index.ts";
import { listed, liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

/** Maximum number of tags, which bounds the number of gauges and labels. */
const METRIC_TAGS_MAX = 8;

export const TAG_SETTINGS = {
  metricTags: sectionOf("tandem").parsed<readonly string[]>("metric_tags", {
    default: [],
    defaultWords: "none",
    values: `up to ${METRIC_TAGS_MAX} names, separated by commas`,
    meaning: "[tags](api/jobs.md#tags) that alerts include, and by which metrics count jobs",
    parse(text) {
      const names = [...new Set(listed(text))];
      const isValid = names.length <= METRIC_TAGS_MAX && names.every(isTagName);
      return isValid
        ? { value: names }
        : { expected: `up to ${METRIC_TAGS_MAX} names of tags such as team, env` };
    },
  }),
};
export type TagSettings = Values<typeof TAG_SETTINGS>;

export function tagSettings(texts: SettingTexts): TagSettings {
  return liveSettings(texts, TAG_SETTINGS);
}
