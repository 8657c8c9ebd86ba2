/** A TCP proxy in front of a node. It loses connections as networks do. */
import { connect, createServer } from "node:net";

export class FaultyNetwork {
  /** Whether new connections are accepted without a response, and open ones are silent. */
  #isBlackHole = false;
  #server;
  #pairs = new Set();

  static async open(port) {
    const network = new FaultyNetwork();
    network.#server = createServer((client) => network.#take(client, port));
    await new Promise((resolve) => network.#server.listen(0, "127.0.0.1", resolve));
    return network;
  }

  get port() {
    return this.#server.address().port;
  }

  setBlackHole(isBlackHole) {
    this.#isBlackHole = isBlackHole;
    if (!isBlackHole) return;
    for (const { client, behind } of this.#pairs) {
      client.unpipe();
      behind?.unpipe();
      client.resume();
      behind?.resume();
    }
  }

  /** Closes open connections to the node without notice to the clients. New connections work. */
  loseHalf() {
    for (const { client, behind } of this.#pairs) {
      behind?.unpipe(client);
      client.unpipe();
      client.resume();
      behind?.destroy();
    }
  }

  cutAll() {
    for (const { client, behind } of this.#pairs) {
      client.destroy();
      behind?.destroy();
    }
  }

  close() {
    this.cutAll();
    this.#server.close();
  }

  #take(client, port) {
    const behind = this.#isBlackHole ? undefined : connect({ port, host: "127.0.0.1" });
    const pair = { client, behind };
    this.#pairs.add(pair);
    client.on("error", () => {});
    client.on("close", () => {
      behind?.destroy();
      this.#pairs.delete(pair);
    });
    if (behind === undefined) {
      client.resume();
      return;
    }
    behind.on("error", () => {});
    behind.on("end", () => client.end());
    client.pipe(behind).pipe(client, { end: false });
  }
}
