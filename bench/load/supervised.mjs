/** Processes of one store, each of which is restarted when it exits, as by a supervisor. */
import { setTimeout as pause } from "node:timers/promises";
import { endProcess, openProcess } from "./node-process.mjs";

const PAUSE_MS = 300;

export class Supervised {
  /** Number of exits. */
  endCount = 0;
  #directory;
  #kept;
  #nodes = [];
  #isOver = false;

  /** Starts a process for each element of `kept`, the options of `openProcess`. */
  static async open(directory, kept) {
    const all = new Supervised();
    all.#directory = directory;
    all.#kept = kept;
    for (const [index, options] of kept.entries()) {
      const node = await openProcess(directory, options);
      all.#keep(index, node);
    }
    return all;
  }

  get count() {
    return this.#kept.length;
  }

  url(index) {
    return this.#nodes[index].url;
  }

  /** Sends a signal to the current process. */
  signal(index, signal) {
    this.#nodes[index].child.kill(signal);
  }

  /** Kills all processes, and restarts none until `resume` is called. */
  async hold() {
    this.#isOver = true;
    await Promise.all(this.#nodes.map((node) => endProcess(node, "SIGKILL")));
  }

  resume() {
    this.#isOver = false;
    for (let index = 0; index < this.count; index++) this.#again(index);
  }

  #keep(index, node) {
    this.#nodes[index] = node;
    const { child } = node;
    const again = async () => {
      if (this.#isOver) return;
      this.endCount++;
      await pause(PAUSE_MS);
      this.#again(index);
    };
    if (child.exitCode === null && child.signalCode === null) child.once("exit", again);
    else setImmediate(again);
  }

  /** Restarts a process on the same port. */
  #again(index) {
    if (this.#isOver) return;
    const { url } = this.#nodes[index];
    const port = url === undefined ? 0 : Number(new URL(url).port);
    openProcess(this.#directory, { ...this.#kept[index], port }).then(
      (node) => {
        this.#keep(index, node);
        // `hold` was called while the process was starting.
        if (this.#isOver) node.child.kill("SIGKILL");
      },
      () => pause(PAUSE_MS).then(() => this.#again(index)),
    );
  }
}
