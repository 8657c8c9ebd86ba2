/**
 * Bounds the bytes held between reading and writing. Reservations are admitted in order of arrival.
 */

/** A reservation of bytes. `release` may be called repeatedly. */
export interface HeldBytes {
  /** Corrects an estimate. Does not wait, because the memory is already in use. */
  resize(byteCount: number): void;
  release(): void;
}

export class ByteRoom {
  readonly #byteCountMax: number;
  #byteCount = 0;
  readonly #waiting: { readonly byteCount: number; readonly admit: () => void }[] = [];

  constructor(byteCountMax: number) {
    this.#byteCountMax = byteCountMax;
  }

  /**
   * Resolves when the bytes fit within the bound. A reservation that exceeds the whole bound is
   * admitted alone.
   */
  async take(byteCount: number): Promise<HeldBytes> {
    if (this.#waiting.length > 0 || !this.#fits(byteCount)) {
      await new Promise<void>((admit) => this.#waiting.push({ byteCount, admit }));
    } else this.#byteCount += byteCount;
    let held = byteCount;
    const resize = (changed: number): void => {
      this.#byteCount += changed - held;
      held = changed;
      this.#admit();
    };
    return { resize, release: () => resize(0) };
  }

  #fits(byteCount: number): boolean {
    return this.#byteCount === 0 || this.#byteCount + byteCount <= this.#byteCountMax;
  }

  #admit(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || !this.#fits(next.byteCount)) return;
      this.#waiting.shift();
      this.#byteCount += next.byteCount;
      next.admit();
    }
  }
}
