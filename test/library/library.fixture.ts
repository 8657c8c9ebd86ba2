/** Nodes of the library, and documents in their databases. */
import {
  type OpenNodeOptions,
  openNode,
  type TandemNode,
} from "../../src/library/entries/index.ts";

export class LibraryNodes {
  readonly #nodes: TandemNode[] = [];

  async open(options: OpenNodeOptions = {}): Promise<TandemNode> {
    const node = await openNode(options);
    this.#nodes.push(node);
    return node;
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()));
  }
}

export interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly body: any;
}

/** Sends a request with a JSON body, and parses the response. */
export async function call(
  node: Pick<TandemNode, "fetch">,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answered> {
  const response = await node.fetch(path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

/** Creates a database with `count` documents. */
export async function fill(node: TandemNode, name: string, count: number): Promise<void> {
  await node.databases.get(name).create();
  const docs = Array.from({ length: count }, (_, index) => ({ _id: `doc-${index}`, index }));
  const { status } = await call(node, "POST", `/${name}/_bulk_docs`, { docs });
  if (status !== 201) throw new Error(`the documents were not written: ${status}`);
}
