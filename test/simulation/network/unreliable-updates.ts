/**
 * A server with unreliable updates. It changes its responses to `_db_updates` and `_dbs_info` in
 * two ways. Some responses are unusual, late or missing, but a watcher eventually learns of each
 * change. Other responses are false and hide changes.
 */
import type { FetchRequest } from "../../../src/http-client/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { VirtualTime } from "../kernel/virtual-time.ts";
import { type Answer, plainAnswer, type Serve } from "./simulated-network.ts";

/**
 * How an account may detect changes on this server: with the update feed, with requests that
 * compare many databases, or with one request per database.
 */
const ACCESS = ["feed", "feed", "comparison", "single"] as const;
const ODDITIES = ["repeated", "reordered", "ended early", "place forgotten"] as const;
const TROUBLES = ["broken", "late"] as const;
const LIES = ["rows lost", "rows skipped", "old places"] as const;
type Fault = (typeof ODDITIES | typeof TROUBLES | typeof LIES)[number];

const LATE_MS_MAX = 20_000;
const ODD_RATIO = 0.3;

interface Update {
  readonly db_name: string;
  readonly seq: unknown;
}
interface Updates {
  readonly results: readonly Update[];
  readonly last_seq: unknown;
}
interface Place {
  readonly key: string;
}

export class UnreliableUpdates {
  readonly #serve: Serve;
  readonly #random: SeededRandom;
  readonly #time: VirtualTime;
  readonly #access: (typeof ACCESS)[number];
  #faults: readonly Fault[];
  /** The earlier responses about each database. */
  readonly #oldPlaces = new Map<string, Place>();
  /** Number of faults by kind. */
  readonly counts = new Map<Fault, number>();

  constructor(serve: Serve, random: SeededRandom, time: VirtualTime, lies: boolean) {
    this.#serve = serve;
    this.#random = random;
    this.#time = time;
    this.#access = random.pick(ACCESS);
    const armed = [...ODDITIES, ...TROUBLES].filter(() => random.chance(0.5));
    this.#faults = lies ? [...armed, ...LIES] : armed;
  }

  /** Ends errors and delays. Unusual responses and false responses remain. */
  heal(): void {
    this.#faults = this.#faults.filter((fault) => !isTrouble(fault));
  }

  async serve(request: FetchRequest): Promise<Answer> {
    const path = new URL(request.url).pathname;
    const isFeed = path === "/_db_updates";
    if (!isFeed && path !== "/_dbs_info") return this.#serve(request);
    if (isFeed && this.#access !== "feed") return plainAnswer(403, "{}");
    if (!isFeed && this.#access === "single") return plainAnswer(404, "{}");
    if (this.#strikes("broken")) return plainAnswer(500, "{}");
    if (this.#strikes("late")) await this.#time.sleep(this.#random.between(0, LATE_MS_MAX));
    return isFeed ? this.#updates(request) : this.#places(request);
  }

  async #updates(request: FetchRequest): Promise<Answer> {
    const url = new URL(request.url);
    const since = url.searchParams.get("since");
    // A request with `since=now` gets the correct last sequence. A later sequence would simulate a
    // server that has lost rows, which is a different fault.
    if (since === "now") return this.#serve(request);
    if (this.#strikes("place forgotten")) url.searchParams.set("since", "0");
    const answer = await this.#serve({ ...request, url: url.href });
    return changed(answer, (updates: Updates) => this.#distorted(updates, since));
  }

  #distorted({ results, last_seq: last }: Updates, since: unknown): Updates {
    if (this.#strikes("rows skipped")) return { results: [], last_seq: last };
    if (this.#strikes("ended early")) {
      const left = results.slice(0, results.length / 2);
      return { results: left, last_seq: left.at(-1)?.seq ?? since };
    }
    const kept = this.#strikes("rows lost")
      ? results.filter(() => this.#random.chance(0.5))
      : results;
    const repeated = this.#strikes("repeated") ? [...kept, ...kept] : kept;
    const ordered = this.#strikes("reordered") ? repeated.toReversed() : repeated;
    return { results: ordered, last_seq: last };
  }

  async #places(request: FetchRequest): Promise<Answer> {
    const answer = await this.#serve(request);
    return changed(answer, (places: readonly Place[]) =>
      places.map((place) => {
        const old = this.#oldPlaces.get(place.key);
        if (old !== undefined && this.#strikes("old places")) return old;
        this.#oldPlaces.set(place.key, place);
        return place;
      }),
    );
  }

  #strikes(fault: Fault): boolean {
    if (!this.#faults.includes(fault) || !this.#random.chance(ODD_RATIO)) return false;
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    return true;
  }
}

function isTrouble(fault: Fault): boolean {
  return TROUBLES.some((trouble) => trouble === fault);
}

/**
 * Returns a response with status 200 after `change` was applied to its JSON. Returns any other
 * response unchanged.
 */
function changed<T>(answer: Answer, change: (json: T) => T): Answer {
  if (answer.status !== 200) return answer;
  const json: T = JSON.parse(Buffer.from(answer.bytes).toString());
  return { ...answer, bytes: Buffer.from(JSON.stringify(change(json))) };
}
