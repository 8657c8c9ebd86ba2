/**
 * Writers that record acknowledged writes, and checks of the recorded writes. Each database has its
 * own writers, which create and update documents sequentially.
 */
import { setTimeout as pause } from "node:timers/promises";
import { ask, leavesOf } from "./node-process.mjs";

const WRITERS_OF_EACH = 2;
const DOCUMENTS_OF_EACH = 200;
const PAUSE_AFTER_FAILURE_MS = 20;

export class Ledger {
  /** Whether the writers have been stopped. */
  isOver = false;
  /** Descriptions of failed checks. */
  faults = [];
  counts = { refused: 0, unanswered: 0, checked: 0 };
  #url;
  /** Id and revision of every acknowledged write, by database. */
  #acknowledged;
  #writing = [];

  /** `databases` are names of existing databases of the node at `url`. */
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

  /**
   * Checks that every acknowledged revision is the only leaf of its document, or an ancestor of it.
   */
  async lookUp(when) {
    for (const [database, known] of this.#acknowledged) {
      const before = [...known];
      const leaves = await patiently(() => leavesOf(this.#url, database));
      for (const [id, rev] of before) {
        this.counts.checked++;
        // A document that is written again while the changes are read can be absent: it has moved
        // past the end of the list.
        const found = leaves.get(id) ?? (await patiently(() => this.#revisionOf(database, id)));
        const exists =
          found !== undefined &&
          !found.includes(",") &&
          (found === rev || generationOf(found) > generationOf(rev));
        if (!exists) {
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
        // 409: an earlier attempt might have written the document, and its response was lost.
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
      this.faults.push(`${database}/${id}: a conflict without a newer revision`);
    }
  }

  async #revisionOf(database, id) {
    return (await ask(this.#url, "GET", `/${database}/${id}`)).body._rev;
  }
}

/**
 * Waits until `copy` on the node at `copyUrl` has the leaves of `database`. Returns `undefined`,
 * or, if that takes too long, the number of documents in `copy`.
 */
export async function missingOf({ url, database, copyUrl, copy, untilMs }) {
  const source = JSON.stringify(sorted(await leavesOf(url, database)));
  for (;;) {
    const target = await leavesOf(copyUrl, copy).catch(() => new Map());
    if (JSON.stringify(sorted(target)) === source) return undefined;
    if (performance.now() > untilMs) return target.size;
    await pause(200);
  }
}

/**
 * Waits until the job of a document has this state. Returns the current state if that takes too
 * long.
 */
export async function otherStateOf({ url, document, state, untilMs }) {
  for (;;) {
    const { body } = await ask(url, "GET", `/_scheduler/docs/_replicator/${document}`);
    if (body.state === state) return undefined;
    if (performance.now() > untilMs) return body.state;
    await pause(200);
  }
}

/** The last observed checkpoints of jobs. */
export class Checkpoints {
  checkCount = 0;
  #places = new Map();

  /**
   * Checks the checkpoint of a document's job. Returns a description of the fault if the checkpoint
   * moved back, for example because a node wrote it after losing the job.
   */
  async check(url, document) {
    const { body } = await patiently(() =>
      ask(url, "GET", `/_scheduler/docs/_replicator/${document}`),
    );
    this.checkCount++;
    const place = Number.parseInt(body.info?.checkpointed_source_seq ?? "0", 10);
    const before = this.#places.get(document) ?? 0;
    this.#places.set(document, Math.max(before, place));
    if (place >= before) return undefined;
    return `the checkpoint of ${document} went from ${before} to ${place}`;
  }
}

/**
 * Retries a failed request, because idle connections can break, and a killed API process soon
 * listens again.
 */
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
