/**
 * The changes of a run's source. They can be asked for before it is certain where the run begins, so that the first answer is on its way
 * while both sides are asked what they remember.
 */
import { abortWith } from "../../base/index.ts";
import {
  type ChangesItem,
  type ChangesRequest,
  type Endpoint,
  isSameSequence,
  type SourceSequence,
} from "../endpoints/endpoint.ts";

type Items = readonly ChangesItem[];

/** A feed of which the first items are on their way. */
interface BegunFeed {
  readonly since: SourceSequence;
  readonly iterator: AsyncIterator<Items>;
  readonly first: Promise<IteratorResult<Items>>;
  readonly controller: AbortController;
  readonly unfollow: () => void;
}

/** Why a feed ends that was begun at another place than the run. */
const NOT_WANTED = new Error("The run begins elsewhere");

export class EarlyChanges {
  readonly #source: Pick<Endpoint, "changes">;
  readonly #request: Omit<ChangesRequest, "since">;
  #begun: BegunFeed | undefined;

  constructor(source: Pick<Endpoint, "changes">, request: Omit<ChangesRequest, "since">) {
    this.#source = source;
    this.#request = request;
  }

  /** Asks for the changes after `since`, unless they are asked for already; for none after another place then. */
  async begin(since: SourceSequence, signal: AbortSignal): Promise<void> {
    if (this.#begun !== undefined && isSameSequence(this.#begun.since, since)) return;
    await this.giveUp();
    const controller = new AbortController();
    const unfollow = abortWith(signal, controller);
    const feed = this.#source.changes({ ...this.#request, since }, controller.signal);
    const iterator = feed[Symbol.asyncIterator]();
    const first = iterator.next();
    // Whoever takes the feed is told; nobody else wants to know.
    first.catch(() => {});
    this.#begun = { since, iterator, first, controller, unfollow };
  }

  /** The changes after `since`, whether they were begun or not. */
  async *after(since: SourceSequence, signal: AbortSignal): AsyncIterable<Items> {
    await this.begin(since, signal);
    const { iterator, first, controller, unfollow } = this.#begun as BegunFeed;
    this.#begun = undefined;
    const unfollowReader = abortWith(signal, controller);
    try {
      for (let next = await first; next.done !== true; next = await iterator.next()) {
        yield next.value;
      }
    } finally {
      unfollow();
      unfollowReader();
      await iterator.return?.();
    }
  }

  /** Ends what was begun, unless somebody has taken it. */
  async giveUp(): Promise<void> {
    const begun = this.#begun;
    if (begun === undefined) return;
    this.#begun = undefined;
    begun.unfollow();
    begun.controller.abort(NOT_WANTED);
    await begun.first.catch(() => {});
    await begun.iterator.return?.();
  }
}
