/**
 * Reports settings without effect: misspelt names, and CouchDB's settings that are not used here.
 */
import type { Trace } from "../../base/index.ts";
import type { Configuration } from "./configuration.ts";
import {
  FREE_SECTIONS,
  INEFFECTIVE_SETTINGS,
  type IneffectiveSettings,
} from "./couchdb-settings.ts";
import { nearestName } from "./near-names.ts";
import type { Place } from "./settings.ts";

/**
 * Traces an event for each setting that is set but has no effect, and again whenever that setting
 * changes. Also traces changes of `fileSettings`: they have no effect, because these settings are
 * read only from the file.
 */
export function announceIneffectiveSettings(
  configuration: Configuration,
  fileSettings: readonly Place[],
  trace: Pick<Trace, "event">,
): void {
  const { known } = configuration;
  const announce = ({ section, key }: Place, message: string | undefined): void => {
    if (message === undefined) return;
    trace.event("configuration.setting-ignored", { section, key, message });
  };
  for (const [section, pairs] of configuration.sections()) {
    for (const key of pairs.keys())
      announce({ section, key }, ineffectiveness({ section, key }, known));
  }
  configuration.watchAll(({ section, key, value }) => {
    if (value === undefined) return;
    const isOfFile = isAmong(fileSettings, { section, key });
    const message = isOfFile
      ? `${nameOf({ section, key })} is read from the file that --config names, when a node starts`
      : ineffectiveness({ section, key }, known);
    announce({ section, key }, message);
  });
}

/**
 * Returns the reason why a setting has no effect, or `undefined` if it has an effect. `known` are
 * the settings with an effect.
 */
export function ineffectiveness(place: Place, known: readonly Place[]): string | undefined {
  const { section, key } = place;
  if (FREE_SECTIONS.includes(section)) return undefined;
  // `[cors:HOST]` has the settings of `[cors]`.
  const home = section.startsWith("cors:") ? "cors" : section;
  if (isAmong(known, { section: home, key })) return undefined;
  const row = INEFFECTIVE_SETTINGS.find((settings) => isIn(settings, place));
  if (row !== undefined) return `${nameOf(place)} has no effect: ${row.why}`;
  const meant = meantBy({ section: home, key }, known);
  const question = meant === undefined ? "" : `; did you mean ${nameOf(meant)}?`;
  return `${nameOf(place)} is not a setting${question}`;
}

/**
 * Returns the setting that was probably meant: the same key elsewhere, a similar key in the same
 * section, or the same key in a similar section.
 */
function meantBy({ section, key }: Place, known: readonly Place[]): Place | undefined {
  const keysOf = (name: string) => known.filter((place) => place.section === name);
  const nearby = nearestName(
    key,
    keysOf(section).map((place) => place.key),
  );
  if (nearby !== undefined) return { section, key: nearby };
  const sections = new Set(known.map((place) => place.section));
  const nearSection = nearestName(section, sections);
  if (nearSection !== undefined && nearSection !== section) {
    const found = nearestName(
      key,
      keysOf(nearSection).map((place) => place.key),
    );
    if (found !== undefined) return { section: nearSection, key: found };
  }
  const elsewhere = known.filter((place) => place.key === key);
  return elsewhere.length === 1 ? elsewhere[0] : undefined;
}

function isIn({ section, keys }: IneffectiveSettings, place: Place): boolean {
  const isSection = section.endsWith("*")
    ? place.section.startsWith(section.slice(0, -1))
    : place.section === section;
  return isSection && (keys === undefined || keys.includes(place.key));
}

function isAmong(places: readonly Place[], { section, key }: Place): boolean {
  return places.some((place) => place.section === section && place.key === key);
}

function nameOf({ section, key }: Place): string {
  return `[${section}] ${key}`;
}
