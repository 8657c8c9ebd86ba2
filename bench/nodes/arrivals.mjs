/**
 * Tells when documents have arrived at a server, without asking for each again and again: it follows `_db_updates`, and asks for the
 * documents that are awaited in the databases that this names. So the meter takes one request for a document, and few besides.
 */
import { performance } from "node:perf_hooks";
import { ask } from "../load/node-process.mjs";

/** Updates are gathered for so long; no time that is measured here is more exact. */
const GATHER_MS = 20;
const AT_ONCE = 16;

export class Arrivals {
  #url;
  #isOver = false;
  #ended;
  /** What is awaited in each database: ids, and what to call with the time when it is there. */
  #awaited = new Map();

  /** `url`: the server, with credentials if it wants any. Its feed is followed from now on. */
  static async open(url) {
    const arrivals = new Arrivals();
    arrivals.#url = url;
    const { body, status } = await ask(url, "GET", "/_db_updates?since=now&timeout=0");
    if (status !== 200) throw new Error(`_db_updates answers ${status}`);
    arrivals.#ended = arrivals.#follow(body.last_seq);
    return arrivals;
  }

  /** Resolves with the time (`performance.now`) at which the document was seen there. To be called before it is written anywhere. */
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

/** Does the work for each of them, sixteen at once. */
export async function inParallel(items, work) {
  let next = 0;
  const lane = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}
