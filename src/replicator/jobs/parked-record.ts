/** Stored form of the sources that are watched for a parked job: one for each direction. */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { WatchedPlace } from "../request/watched-place.ts";

type Source = Pick<WatchedPlace, "source" | "database">;

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeSources(sources: readonly Source[]): Uint8Array {
  return packTuple([FORMAT, ...sources.flatMap(({ source, database }) => [source, database])]);
}

export function decodeSources(value: Uint8Array): readonly Source[] {
  const [format, ...names] = unpackTuple(value);
  assert(format === FORMAT, "A parked job must have a supported format version");
  const sources: Source[] = [];
  for (let index = 0; index < names.length; index += 2) {
    sources.push({ source: String(names[index]), database: String(names[index + 1]) });
  }
  return sources;
}
