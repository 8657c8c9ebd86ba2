/**
 * Whether the disk has room for the store. A disk that is nearly full takes some commits and refuses others, so the trouble begins with
 * the first refusal, and ends when there is clearly room again.
 */
import type { Runtime } from "../../base/index.ts";
import { freeBytes } from "./environment.ts";

/** What the largest group of commits may take. */
const ROOM_BYTES = 16_000_000;

/** Of a limit that the system does not show as room, such as a user's quota, only time tells that it is no limit any more. */
const QUIET_MS = 60_000;

interface Trouble {
  /** The system shows that there is little room. */
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

  /** A commit was refused for want of room. Only the first one is announced. */
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

  /** To be called now and then. */
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
