/** A growing buffer and its reader, for messages between threads and for the commit log. */

export class ByteWriter {
  #bytes: Buffer<ArrayBuffer>;
  #length = 0;

  /** Takes ownership of `memory`. */
  constructor(memory: ArrayBuffer = new ArrayBuffer(4_096)) {
    this.#bytes = Buffer.from(memory);
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Reserves capacity for `byteCount` more bytes. Without a reservation, the buffer grows by
   * doubling.
   */
  expect(byteCount: number): void {
    this.#reserve(byteCount);
  }

  uint8(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  uint32(value: number): void {
    this.#reserve(4);
    this.#length = this.#bytes.writeUInt32LE(value, this.#length);
  }

  float64(value: number): void {
    this.#reserve(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
  }

  /** Writes the length, then the bytes. */
  bytes(value: Uint8Array): void {
    this.#reserve(4 + value.length);
    this.#length = this.#bytes.writeUInt32LE(value.length, this.#length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  /** Like `bytes`, for a string with one character per byte. */
  text(value: string): void {
    this.#reserve(4 + value.length);
    this.#length = this.#bytes.writeUInt32LE(value.length, this.#length);
    this.#bytes.write(value, this.#length, "latin1");
    this.#length += value.length;
  }

  /** Overwrites a `uint32` written earlier. */
  patchUint32(offset: number, value: number): void {
    this.#bytes.writeUInt32LE(value, offset);
  }

  /** Returns the written bytes, which share the writer's memory. */
  finish(): Buffer<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  #reserve(byteCount: number): void {
    const needed = this.#length + byteCount;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.from(new ArrayBuffer(Math.max(this.#bytes.length * 2, needed)));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

export class ByteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  get offset(): number {
    return this.#at;
  }

  uint8(): number {
    return this.#bytes[this.#at++] as number;
  }

  uint32(): number {
    const value = this.#bytes.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  float64(): number {
    const value = this.#bytes.readDoubleLE(this.#at);
    this.#at += 8;
    return value;
  }

  /** Reads a byte string as a view of the buffer. */
  bytes(): Buffer {
    const end = this.#at + 4 + this.#bytes.readUInt32LE(this.#at);
    const value = this.#bytes.subarray(this.#at + 4, end);
    this.#at = end;
    return value;
  }

  /** Length of the next byte string. */
  nextLength(): number {
    return this.#bytes.readUInt32LE(this.#at);
  }

  /** Skips a byte string. */
  skip(): void {
    this.#at += 4 + this.nextLength();
  }

  text(): string {
    const end = this.#at + 4 + this.#bytes.readUInt32LE(this.#at);
    const value = this.#bytes.toString("latin1", this.#at + 4, end);
    this.#at = end;
    return value;
  }
}
