/** Seals bytes that nobody may read in the store: only who has the key opens them again. */

export interface Seal {
  /**
   * `place` says where the bytes are kept; they open at no other place. The same bytes are sealed differently each time. Throws
   * SECRETS_KEY_MISSING when the key that is to seal is not here.
   */
  seal(plain: Uint8Array, place: string): Uint8Array;
  /** Throws SECRETS_KEY_MISSING when the key is not here, and SECRETS_DAMAGED when these are not the bytes that were sealed for the place. */
  open(sealed: Uint8Array, place: string): Uint8Array;
  /** Whether the bytes were sealed with the key that seals now. */
  isCurrent(sealed: Uint8Array): boolean;
}
