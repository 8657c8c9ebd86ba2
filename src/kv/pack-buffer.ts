/** A buffer that grows while a tuple is packed into it. */
export class PackBuffer {
  bytes = new Uint8Array(1024);
  length = 0;
  /** Offset of the incomplete versionstamp's ten bytes; negative without one. */
  stampOffset = -1;
  stampCount = 0;

  reset(): void {
    this.length = 0;
    this.stampOffset = -1;
    this.stampCount = 0;
  }

  reserve(byteCount: number): void {
    if (this.length + byteCount <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, this.length + byteCount));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  push(byte: number): void {
    this.reserve(1);
    this.bytes[this.length++] = byte;
  }
}
