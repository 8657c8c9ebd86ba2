/** A bound on the bytes that are held between reading and writing. Who wants more room than is left waits, first come, first served. */

/** What one has of the room. */
export interface HeldBytes {
  /** Corrects what was estimated: it is held already, so nothing waits for it. */
  resize(byteCount: number): void;
  /** Safe to call twice. */
  release(): void;
}

export class ByteRoom {
  readonly #byteCountMax: number;
  #byteCount = 0;
  readonly #waiting: { readonly byteCount: number; readonly admit: () => void }[] = [];

  constructor(byteCountMax: number) {
    this.#byteCountMax = byteCountMax;
  }

  /** Resolves when there is room for so many bytes. More than all of it is taken alone. */
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
