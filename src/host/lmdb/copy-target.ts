/** Creates an embedded store as the target of a copy. */
import type { KeyValue } from "../../kv/index.ts";
import type { CopyTarget } from "../backup/copy-store.ts";
import { LmdbImport } from "./import.ts";

export class LmdbCopyTarget implements CopyTarget {
  readonly #directory: string;
  #import: LmdbImport | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Starts the import. The version of the source does not matter: `finish` sets a later one. */
  async begin(): Promise<void> {
    this.#import = new LmdbImport({ directory: this.#directory });
  }

  async put(rows: readonly KeyValue[]): Promise<void> {
    this.#import?.put(rows);
  }

  pages(): Iterable<readonly KeyValue[]> {
    return this.#import?.pages() ?? [];
  }

  async finish(version: number): Promise<void> {
    await this.#import?.finish(version);
  }

  async close(): Promise<void> {
    await this.#import?.close();
  }
}
