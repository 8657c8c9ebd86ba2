/**
 * Writers that remember what was acknowledged, and what became of it. Each database has writers of its own, which write and update
 * documents one after the other.
 */
import { setTimeout as pause } from "node:timers/promises";
import { ask, leavesOf } from "./node-process.mjs";

const WRITERS_OF_EACH = 2;
const DOCUMENTS_OF_EACH = 200;
const PAUSE_AFTER_FAILURE_MS = 20;

export class Ledger {
  /** The writers write no more. */
  isOver = false;
  /** What was wrong, in words. */
  faults = [];
  counts = { refused: 0, unanswered: 0, looked: 0 };
  #url;
  /** Of each database: id and revision of every write that was acknowledged. */
  #acknowledged;
  #writing = [];

  /** Of databases that are there on the node at `url`. */
  constructor(url, databases) {
    this.#url = url;
    this.#acknowledged = new Map(databases.map((name) => [name, new Map()]));
  }

  get writeCount() {
    const revisions = [...this.#acknowledged.values()].flatMap((known) => [...known.values()]);
    return revisions.reduce((sum, rev) => sum + generationOf(rev), 0);
  }

  get documentCount() {
    return [...this.#acknowledged.values()].reduce((sum, { size }) => sum + size, 0);
  }

  start() {
    for (const database of this.#acknowledged.keys()) {
      for (let writer = 0; writer < WRITERS_OF_EACH; writer++) {
        this.#writing.push(this.#write(database, writer));
      }
    }
  }

  async stop() {
    this.isOver = true;
    await Promise.all(this.#writing);
  }

  /** Every acknowledged revision must be the leaf, or an ancestor of a single newer one. */
  async lookUp(when) {
    for (const [database, known] of this.#acknowledged) {
      const before = [...known];
      const leaves = await patiently(() => leavesOf(this.#url, database));
      for (const [id, rev] of before) {
        this.counts.looked++;
        // What is written while the changes are read has moved behind their end.
        const found = leaves.get(id) ?? (await patiently(() => this.#revisionOf(database, id)));
        const isThere =
          found !== undefined &&
          !found.includes(",") &&
          (found === rev || generationOf(found) > generationOf(rev));
        if (!isThere) {
          this.faults.push(`${when}: ${database}/${id} is ${found}, ${rev} was acknowledged`);
        }
      }
    }
  }

  async #write(database, writer) {
    const known = this.#acknowledged.get(database);
    for (let number = 0; !this.isOver; number++) {
      const id = `w${writer}-${number % DOCUMENTS_OF_EACH}`;
      const rev = known.get(id);
      const body = { number, ...(rev === undefined ? {} : { _rev: rev }) };
      try {
        const { status, body: answer } = await ask(this.#url, "PUT", `/${database}/${id}`, body);
        if (status === 201) known.set(id, answer.rev);
        // A write whose answer was lost may be there all the same.
        else if (status === 409) await this.#adopt(database, id);
        else if (status === 503) await this.#refused();
        else this.faults.push(`${status} for ${database}/${id}: ${JSON.stringify(answer)}`);
      } catch {
        this.counts.unanswered++;
        await pause(PAUSE_AFTER_FAILURE_MS);
      }
    }
  }

  async #refused() {
    this.counts.refused++;
    await pause(PAUSE_AFTER_FAILURE_MS);
  }

  async #adopt(database, id) {
    const { status, body } = await ask(this.#url, "GET", `/${database}/${id}`);
    const known = this.#acknowledged.get(database);
    if (status === 200 && generationOf(body._rev) > generationOf(known.get(id))) {
      known.set(id, body._rev);
    } else if (status !== 503) {
      this.faults.push(`${database}/${id}: a conflict with nothing newer`);
    }
  }

  async #revisionOf(database, id) {
    return (await ask(this.#url, "GET", `/${database}/${id}`)).body._rev;
  }
}

/** Waits until `copy` on the node at `copyUrl` has the leaves of `database`; how many documents it has when that takes too long. */
export async function lackOf({ url, database, copyUrl, copy, untilMs }) {
  const source = JSON.stringify(sorted(await leavesOf(url, database)));
  for (;;) {
    const target = await leavesOf(copyUrl, copy).catch(() => new Map());
    if (JSON.stringify(sorted(target)) === source) return undefined;
    if (performance.now() > untilMs) return target.size;
    await pause(200);
  }
}

/** Waits until the job of a document has the state; the one that it has when that takes too long. */
export async function otherStateOf({ url, document, state, untilMs }) {
  for (;;) {
    const { body } = await ask(url, "GET", `/_scheduler/docs/_replicator/${document}`);
    if (body.state === state) return undefined;
    if (performance.now() > untilMs) return body.state;
    await pause(200);
  }
}

/** The last checkpoints of jobs that were seen. */
export class Checkpoints {
  lookCount = 0;
  #places = new Map();

  /** Looks at that of a document's job. Text when it went back, as when a node wrote that had lost its job to another. */
  async look(url, document) {
    const { body } = await patiently(() =>
      ask(url, "GET", `/_scheduler/docs/_replicator/${document}`),
    );
    this.lookCount++;
    const place = Number.parseInt(body.info?.checkpointed_source_seq ?? "0", 10);
    const before = this.#places.get(document) ?? 0;
    this.#places.set(document, Math.max(before, place));
    if (place >= before) return undefined;
    return `the checkpoint of ${document} went from ${before} to ${place}`;
  }
}

/** Connections that were kept may break, and an API process that was killed listens again soon. */
export async function patiently(question) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await question();
    } catch (error) {
      if (attempt === 10) throw error;
      await pause(50);
    }
  }
}

function generationOf(rev = "0-") {
  return Number(rev.split("-")[0]);
}

function sorted(leaves) {
  return [...leaves].sort(([left], [right]) => (left < right ? -1 : 1));
}
