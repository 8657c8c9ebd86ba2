/** The port for the files of a browser program. */
export interface StaticFile {
  /** For `Content-Type`. */
  readonly type: string;
  readonly byteCount: number;
  /** For `Last-Modified`. */
  readonly modifiedAt: string;
  /** To be called once, if at all. */
  read(): AsyncIterable<Uint8Array>;
}

export interface StaticFiles {
  /** Undefined for what is not there, or not below the folder. Of a folder, its `index.html`. */
  open(segments: readonly string[]): Promise<StaticFile | undefined>;
}
