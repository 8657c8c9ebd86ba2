/**
 * Detects a full disk. A nearly full disk accepts some commits and rejects others. The disk
 * therefore counts as full from the first failure until there is clearly enough free space.
 */
import type { Runtime } from "../../base/index.ts";
import { freeBytes } from "./environment.ts";

/** Free space required to end the condition: the maximum size of a commit group. */
const ROOM_BYTES = 16_000_000;

/**
 * Time without failed commits after which the disk no longer counts as full, if there was enough
 * free space at the first failure. Writes then fail because of another limit, such as a quota.
 */
const QUIET_MS = 60_000;

interface Trouble {
  /** Whether the free space was measured to be low when a commit failed. */
  readonly isShown: boolean;
  lastRefusalMs: number;
}

export class DiskRoom {
  readonly #runtime: Pick<Runtime, "clock" | "trace">;
  readonly #directory: string;
  readonly #freeBytes: (directory: string) => number;
  #trouble: Trouble | undefined;

  constructor(
    runtime: Pick<Runtime, "clock" | "trace">,
    directory: string,
    freeBytesIn: (directory: string) => number = freeBytes,
  ) {
    this.#runtime = runtime;
    this.#directory = directory;
    this.#freeBytes = freeBytesIn;
  }

  get isFull(): boolean {
    return this.#trouble !== undefined;
  }

  /** Records a commit that failed because the disk is full. Only the first failure is announced. */
  refused(reason: string): void {
    const lastRefusalMs = this.#runtime.clock.monotonicMs();
    if (this.#trouble !== undefined) {
      this.#trouble.lastRefusalMs = lastRefusalMs;
      return;
    }
    const directory = this.#directory;
    this.#trouble = { isShown: this.#freeBytes(directory) < ROOM_BYTES, lastRefusalMs };
    this.#runtime.trace.event("kv.disk-full", { directory, reason });
  }

  /**
   * Checks whether commits can be expected to succeed again. The disk then no longer counts as
   * full. Must be called periodically.
   */
  look(): void {
    if (this.#trouble === undefined) return;
    const { isShown, lastRefusalMs } = this.#trouble;
    const hasRoom = isShown
      ? this.#freeBytes(this.#directory) >= ROOM_BYTES
      : this.#runtime.clock.monotonicMs() - lastRefusalMs >= QUIET_MS;
    if (!hasRoom) return;
    this.#trouble = undefined;
    this.#runtime.trace.event("kv.disk-has-room", { directory: this.#directory });
  }
}
