/**
 * The keys that seal secrets in the store (AES-256-GCM). One key is used for sealing. Values sealed
 * with other keys can be opened too, because each sealed value contains the id of its key.
 *
 *   sealed value   format (1), id of the key (4), nonce (12), the sealed bytes, tag (16)
 *
 * The id of a key is derived from the key itself, so that a wrong key is treated as missing. The
 * location of a value is authenticated (as associated data), so that a value that was moved to
 * another location cannot be opened.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";
import {
  concatBytes,
  equalBytes,
  hexDecode,
  hexEncode,
  OperationalError,
  type Random,
  type Seal,
  utf8Encode,
} from "../../base/index.ts";

export const KEY_BYTES = 32;

const FORMAT = 1;
const ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const NONCE_START = 1 + ID_BYTES;
const HEAD_BYTES = NONCE_START + NONCE_BYTES;
const CIPHER = "aes-256-gcm";

/**
 * Returns the id of a key: the first bytes of its digest, in eight hex digits. The id does not
 * reveal the key.
 */
export function keyIdOf(key: Uint8Array): string {
  const digest = createHash("sha256").update("tandem key id\n").update(key).digest();
  return hexEncode(digest.subarray(0, ID_BYTES));
}

export interface KeyRingParts {
  readonly random: Random;
  /**
   * Reads the keys from the source, oldest first. Called again if a key is missing, because another
   * process might have added it.
   */
  readonly readKeys: () => readonly Uint8Array[];
}

export class KeyRing implements Seal {
  readonly #parts: KeyRingParts;
  #keys: ReadonlyMap<string, Uint8Array> = new Map();
  /** Id of the sealing key. Default: the newest key. */
  #sealingId: string | undefined;

  /** Throws if `readKeys` throws. */
  constructor(parts: KeyRingParts) {
    this.#parts = parts;
    this.reload();
  }

  /** Replaces the keys with the current keys of the source. */
  reload(): void {
    this.#keys = new Map(this.#parts.readKeys().map((key) => [keyIdOf(key), key]));
  }

  /** Ids of the keys, oldest first. */
  get ids(): readonly string[] {
    return [...this.#keys.keys()];
  }

  /**
   * Whether the key is available. Reads the source again if necessary. An unreadable source
   * provides no keys.
   */
  has(id: string): boolean {
    if (this.#keys.has(id)) return true;
    try {
      this.reload();
    } catch {
      return false;
    }
    return this.#keys.has(id);
  }

  /** Selects the sealing key, which need not be available yet. */
  sealWith(id: string): void {
    this.#sealingId = id;
  }

  /** Id of the sealing key; undefined if there are no keys. */
  get sealingId(): string | undefined {
    return this.#sealingId ?? this.ids.at(-1);
  }

  seal(plain: Uint8Array, place: string): Uint8Array {
    const id = this.sealingId;
    const key = this.#key(id);
    const nonce = this.#parts.random.bytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, key, nonce).setAAD(utf8Encode(place));
    const body = [cipher.update(plain), cipher.final(), cipher.getAuthTag()];
    return concatBytes([
      Uint8Array.of(FORMAT),
      hexDecode(id as string) as Uint8Array,
      nonce,
      ...body,
    ]);
  }

  open(sealed: Uint8Array, place: string): Uint8Array {
    if (sealed[0] !== FORMAT || sealed.length < HEAD_BYTES + TAG_BYTES) throw damaged(place);
    const key = this.#key(sealedKeyId(sealed));
    const tagStart = sealed.length - TAG_BYTES;
    try {
      const decipher = createDecipheriv(CIPHER, key, sealed.subarray(NONCE_START, HEAD_BYTES));
      decipher.setAAD(utf8Encode(place)).setAuthTag(sealed.subarray(tagStart));
      const plain = decipher.update(sealed.subarray(HEAD_BYTES, tagStart));
      return concatBytes([plain, decipher.final()]);
    } catch (error) {
      throw damaged(place, error);
    }
  }

  isCurrent(sealed: Uint8Array): boolean {
    const id = this.sealingId;
    const idBytes = sealed.subarray(1, NONCE_START);
    return id !== undefined && equalBytes(idBytes, hexDecode(id) as Uint8Array);
  }

  #key(id: string | undefined): Uint8Array {
    if (id === undefined || !this.has(id)) throw new KeyMissingError(id);
    return this.#keys.get(id) as Uint8Array;
  }
}

/** Id of the key that sealed the value. */
export function sealedKeyId(sealed: Uint8Array): string {
  return hexEncode(sealed.subarray(1, NONCE_START));
}

/** Thrown if sealing or opening requires a key that this node does not have. */
export class KeyMissingError extends OperationalError {
  override readonly name = "KeyMissingError";

  constructor(keyId: string | undefined) {
    const message =
      keyId === undefined
        ? "This node has no key to seal secrets with"
        : `This node lacks the key ${keyId}, which secrets of the store are sealed with`;
    super("SECRETS_KEY_MISSING", message, { keyId });
  }
}

function damaged(place: string, cause?: unknown): OperationalError {
  const message = "A sealed value is damaged, or was moved to a different location";
  return new OperationalError("SECRETS_DAMAGED", message, { place }, { cause });
}
