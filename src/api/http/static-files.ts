/** Interface to the files of a browser application. */
export interface StaticFile {
  /** Value of the `Content-Type` header. */
  readonly type: string;
  readonly byteCount: number;
  /** Value of the `Last-Modified` header. */
  readonly modifiedAt: string;
  /** Opens the content; can be called only once. */
  read(): AsyncIterable<Uint8Array>;
}

export interface StaticFiles {
  /**
   * Returns `undefined` for missing files and for paths outside the folder. A folder is served as
   * its `index.html`.
   */
  open(segments: readonly string[]): Promise<StaticFile | undefined>;
}
