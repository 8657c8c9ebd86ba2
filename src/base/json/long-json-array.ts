/** Random access to the elements of a long JSON array. `json-fields.ts` has measurements. */

import type { Yielder } from "../yielder.ts";
import { NEXT, ROW_LENGTH } from "./json-rows.ts";
import {
  fromElement,
  isBetweenElements,
  type ScannedJson,
  type ScanPause,
  scanUntil,
  UNLIMITED,
} from "./json-scan.ts";
import { JsonValue } from "./json-text.ts";

/**
 * Number of bytes scanned per step, small enough that the rows allocated initially suffice for all
 * elements of a step.
 */
const STEP_BYTES = 4_096;

const SCAN_OPTIONS = { ...UNLIMITED, depthMax: 1, keepsStrings: true };

/** A position from which elements can be scanned. */
interface Step {
  /** Offset of the element; undefined for the start of the array. */
  readonly at: number | undefined;
  /** Number of elements before the position. */
  readonly count: number;
}

/**
 * A long array with access by index. Records a position every few kilobytes, because a row per
 * element would take too much memory.
 */
export class LongJsonArray {
  readonly #bytes: Uint8Array;
  readonly #yielder: Yielder;
  /** Recorded positions in order, as far as the array has been scanned. */
  readonly #steps: Step[] = [{ at: undefined, count: 0 }];
  #pause: ScanPause | undefined;

  /** `bytes` must be the valid text of an array. */
  constructor(bytes: Uint8Array, yielder: Yielder) {
    this.#bytes = bytes;
    this.#yielder = yielder;
  }

  /**
   * Returns an element without nested values, or undefined past the end. Calls must not overlap.
   */
  async at(index: number): Promise<JsonValue | undefined> {
    let place = this.#steps.findLastIndex(({ count }) => count <= index);
    for (;;) {
      if (this.#yielder.isDue) await this.#yielder.yield();
      const step = this.#steps[place] as Step;
      const scanned = await this.#scanFrom(step);
      const rowsEnd = scanned.isWhole ? (scanned.rows[NEXT] as number) : scanned.rowsEnd;
      const row = (1 + index - step.count) * ROW_LENGTH;
      if (row < rowsEnd) return this.#valueOf(scanned.rows.slice(row, row + ROW_LENGTH));
      if (scanned.isWhole) return undefined;
      place++;
      this.#steps[place] = { at: scanned.at, count: step.count + rowsEnd / ROW_LENGTH - 1 };
    }
  }

  #valueOf(row: Int32Array): JsonValue {
    row[NEXT] = ROW_LENGTH;
    return new JsonValue(this.#bytes, row, 0);
  }

  /** Scans from a recorded position to a later element, or to the end of the array. */
  async #scanFrom({ at }: Step): Promise<ScannedJson | ScanPause> {
    let stopAt = (at ?? 0) + STEP_BYTES;
    const from = at === undefined ? undefined : fromElement(this.#pause as ScanPause, at);
    let scanned = scanUntil(this.#bytes, SCAN_OPTIONS, stopAt, from);
    while (!scanned.isWhole && !isBetweenElements(scanned)) {
      if (this.#yielder.isDue) await this.#yielder.yield();
      stopAt = scanned.at + STEP_BYTES;
      scanned = scanUntil(this.#bytes, SCAN_OPTIONS, stopAt, scanned);
    }
    if (!scanned.isWhole) this.#pause = scanned;
    return scanned;
  }
}
