/**
 * Maximum size of a purge transaction. The number of bytes that a purge writes is not known in
 * advance: it depends on the lengths of ids and revisions, and on the index entries that hooks
 * clear. The size is therefore halved whenever a transaction exceeds a limit of the store.
 */
import { errorCode } from "../../base/index.ts";

const DOCUMENTS_MAX = 100;
const REVISIONS_MAX = 1_000;

export class PurgeSize {
  #divisor = 1;

  get documentCountMax(): number {
    return Math.ceil(DOCUMENTS_MAX / this.#divisor);
  }

  get revisionCountMax(): number {
    return Math.ceil(REVISIONS_MAX / this.#divisor);
  }

  /**
   * Halves the size if `error` means that a transaction was too large. Returns false for other
   * errors, and if the transaction purged only one revision.
   */
  halveAfter(error: unknown): boolean {
    const code = errorCode(error);
    // The record of a purge contains its revisions, so the value can be too large.
    const isTooLarge = code === "KV_TOO_LARGE" || code === "KV_VALUE_TOO_LARGE";
    if (!isTooLarge || this.revisionCountMax === 1) return false;
    this.#divisor *= 2;
    return true;
  }
}
