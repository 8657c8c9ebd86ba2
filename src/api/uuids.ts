/**
 * Generates ids for documents without one, and for `/_uuids`, with CouchDB's algorithms
 * (`[uuids]`).
 */
import { hexEncode, type Runtime, randomHex } from "../base/index.ts";

export const UUID_ALGORITHMS = [
  "sequential",
  "random",
  "utc_random",
  "utc_id",
  "uuid_v7",
  "uuid_v4",
] as const;

/** Text formats of `uuid_v7` and `uuid_v4`. */
export const UUID_FORMATS = ["base_16", "base_36", "rfc9562"] as const;

export interface UuidSettings {
  /**
   * `random`: 32 random digits. `sequential`: 26 random digits, and 6 digits that increase by
   * random steps. `utc_random` and `utc_id`: 14 digits of the microseconds since the epoch, and 18
   * random digits or the suffix. `uuid_v7` and `uuid_v4`: RFC 9562.
   */
  readonly uuidAlgorithm: (typeof UUID_ALGORITHMS)[number];
  /** `format` of the ids of the algorithms `uuid_v7` and `uuid_v4`. */
  readonly uuidFormat: (typeof UUID_FORMATS)[number];
  /** `utc_id_suffix`: the end of each id of the algorithm `utc_id`. */
  readonly uuidSuffix: string;
  /** `max_count`: maximum number of ids per request. */
  readonly uuidCountMax: number;
}

const PREFIX_BYTES = 13;
const UTC_RANDOM_BYTES = 9;
/** Maximum increment of a sequence; the minimum is 1. */
const STEP_MAX = 0xffd;
/**
 * Sequence number from which another increment might overflow its six digits; a new random prefix
 * is then generated.
 */
const SEQUENCE_END = 0xfff000;

export class UuidSource {
  readonly #runtime: Pick<Runtime, "clock" | "random">;
  readonly #settings: UuidSettings;
  #prefix: string | undefined;
  #sequence = 0;
  /**
   * Time in the last id, in microseconds. Increased if necessary, so that no two ids have the same
   * time.
   */
  #lastUs = 0;

  /** `settings` are read on each use. */
  constructor(runtime: Pick<Runtime, "clock" | "random">, settings: UuidSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
  }

  /**
   * Returns the next id. Ids from one source are unique. With `utc_id`, ids from different sources
   * can collide if the suffixes are equal.
   */
  next(): string {
    const { random } = this.#runtime;
    const { uuidAlgorithm, uuidFormat, uuidSuffix } = this.#settings;
    if (uuidAlgorithm === "uuid_v7") return formatted(this.#rfc9562(7), uuidFormat);
    if (uuidAlgorithm === "uuid_v4") return formatted(this.#rfc9562(4), uuidFormat);
    if (uuidAlgorithm === "sequential") return this.#sequential();
    if (uuidAlgorithm === "utc_random")
      return this.#time() + hexEncode(random.bytes(UTC_RANDOM_BYTES));
    if (uuidAlgorithm === "utc_id") return this.#time() + uuidSuffix;
    return randomHex(random);
  }

  /** Generates a UUID in hex. Version 7 begins with the milliseconds since the epoch. */
  #rfc9562(version: 4 | 7): string {
    const { clock, random } = this.#runtime;
    const drawn = randomHex(random);
    const time = Math.floor(clock.nowMs()).toString(16).padStart(12, "0");
    const variant = (8 + (Number.parseInt(drawn.charAt(16), 16) % 4)).toString(16);
    const begin = version === 7 ? time : drawn.slice(0, 12);
    return begin + version + drawn.slice(13, 16) + variant + drawn.slice(17);
  }

  #sequential(): string {
    const { random } = this.#runtime;
    if (this.#prefix === undefined || this.#sequence >= SEQUENCE_END) {
      this.#prefix = hexEncode(random.bytes(PREFIX_BYTES));
      this.#sequence = 0;
    }
    this.#sequence += 1 + random.integer(STEP_MAX);
    return this.#prefix + this.#sequence.toString(16).padStart(6, "0");
  }

  #time(): string {
    this.#lastUs = Math.max(this.#lastUs + 1, Math.floor(this.#runtime.clock.nowMs()) * 1000);
    return this.#lastUs.toString(16).padStart(14, "0");
  }
}

function formatted(hex: string, format: UuidSettings["uuidFormat"]): string {
  if (format === "base_36") return BigInt(`0x${hex}`).toString(36).padStart(25, "0");
  if (format === "rfc9562") return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  return hex;
}
