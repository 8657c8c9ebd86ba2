/** Authenticated encryption of secrets in the store. */

export interface Seal {
  /**
   * Encrypts `plain`, bound to `place`, the location where the result is stored. Encrypting the
   * same bytes twice gives different results. Throws SECRETS_KEY_MISSING if this node lacks the
   * current key.
   */
  seal(plain: Uint8Array, place: string): Uint8Array;
  /**
   * Decrypts `sealed`. Throws SECRETS_KEY_MISSING, or SECRETS_DAMAGED if the bytes were not sealed
   * for `place`.
   */
  open(sealed: Uint8Array, place: string): Uint8Array;
  /** Whether the bytes were sealed with the current key. */
  isCurrent(sealed: Uint8Array): boolean;
}
