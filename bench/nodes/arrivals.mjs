/**
 * Observes when documents arrive at a server, without polling each document: follows `_db_updates`,
 * and requests the awaited documents of the databases named there. The measurement therefore costs
 * the server little more than one request per document.
 */
import { performance } from "node:perf_hooks";
import { ask } from "../load/node-process.mjs";

/** Time for which updates are collected. It is the precision of the measured times. */
const GATHER_MS = 20;
const AT_ONCE = 16;

export class Arrivals {
  #url;
  #isOver = false;
  #ended;
  /** The awaited ids of each database, with the callback for the time of arrival. */
  #awaited = new Map();

  /** Follows `_db_updates` of the server from now on. `url` contains credentials if required. */
  static async open(url) {
    const arrivals = new Arrivals();
    arrivals.#url = url;
    const { body, status } = await ask(url, "GET", "/_db_updates?since=now&timeout=0");
    if (status !== 200) throw new Error(`_db_updates answers ${status}`);
    arrivals.#ended = arrivals.#follow(body.last_seq);
    return arrivals;
  }

  /**
   * Resolves with the time (`performance.now`) at which the document was first seen on the server.
   * Call it before you write the document anywhere.
   */
  of(name, id) {
    return new Promise((resolve) => {
      const ids = this.#awaited.get(name) ?? new Map();
      this.#awaited.set(name, ids.set(id, resolve));
    });
  }

  async close() {
    this.#isOver = true;
    await this.#ended;
  }

  async #follow(from) {
    for (let since = from; !this.#isOver; ) {
      const path = `/_db_updates?feed=longpoll&timeout=1000&since=${encodeURIComponent(since)}`;
      const { body } = await ask(this.#url, "GET", path);
      since = body.last_seq;
      const names = [...new Set(body.results.map(({ db_name }) => db_name))];
      await inParallel(names, (name) =>
        this.#look(name, [...(this.#awaited.get(name)?.keys() ?? [])]),
      );
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
    }
  }

  async #look(name, ids) {
    for (const id of ids) {
      const { status } = await ask(this.#url, "GET", `/${encodeURIComponent(name)}/${id}`);
      const awaited = this.#awaited.get(name);
      const resolve = awaited?.get(id);
      if (status !== 200 || resolve === undefined) continue;
      awaited.delete(id);
      if (awaited.size === 0) this.#awaited.delete(name);
      resolve(performance.now());
    }
  }
}

/** Calls `work` for each item, sixteen concurrently. */
export async function inParallel(items, work) {
  let next = 0;
  const lane = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}
