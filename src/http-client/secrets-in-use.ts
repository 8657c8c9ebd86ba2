/**
 * The secrets that a job has sent to servers and proxies, so that no string with a secret is stored
 * or shown. A server can repeat a request in its error message, in any encoding. A string that
 * contains a secret in any usual encoding, or in nested encodings, is withheld as a whole. Jobs do
 * not share these secrets. Otherwise a server could guess credentials of other jobs: a correct
 * guess in its response would be masked.
 */
import { base64Decode, EMPTY_BYTES, hexDecode } from "../base/index.ts";

/** Replacement for a secret, as in CouchDB. */
const MASK = "*****";
const WITHHELD = "(withheld: the text contains a credential)";

/** The user and password of a URL, such as in the error page of a proxy. */
const URL_PASSWORD = /(:\/\/[^\s/:@]*:)[^\s/@]+@/g;

/** Maximum number of secrets remembered; the least recently used are forgotten first. */
const SECRETS_MAX = 10_000;
/**
 * Minimum length of a secret that is matched anywhere in a string; shorter ones are only matched
 * as whole words.
 */
const LENGTH_MIN = 4;
/** Minimum length of a secret that `isRepeatedIn` considers. */
const REPEATED_LENGTH_MIN = 8;
/** Maximum depth of nested encodings. */
const ROUNDS_MAX = 3;
/** Maximum total length of the strings decoded from one string. */
const DERIVED_LENGTH_MAX = 16_384;
/** Maximum length of a string that is searched. Longer strings are truncated first. */
const TEXT_LENGTH_MAX = 2_000;

export class SecretsInUse {
  /** Secrets in lower case, by their first characters. */
  readonly #byKey = new Map<number, Set<string>>();
  /** Secrets shorter than `LENGTH_MIN`, matched only as whole words. */
  readonly #short = new Set<string>();
  /** All secrets, least recently used first. */
  readonly #known = new Set<string>();

  /** Remembers a secret. Comparison is case-insensitive. */
  add(secret: string | undefined): void {
    const folded = secret?.toLowerCase() ?? "";
    if (folded.trim() === "" || folded === MASK) return;
    if (this.#known.delete(folded)) {
      this.#known.add(folded);
      return;
    }
    this.#known.add(folded);
    const key = keyOf(folded);
    const alike = this.#byKey.get(key);
    if (folded.length < LENGTH_MIN) this.#short.add(folded);
    else if (alike === undefined) this.#byKey.set(key, new Set([folded]));
    else alike.add(folded);
    if (this.#known.size > SECRETS_MAX) this.#forgetOldest();
  }

  /**
   * Removes secrets and the passwords of all URLs from a string, and then truncates the string to
   * `lengthMax`.
   */
  redact(text: string, lengthMax = TEXT_LENGTH_MAX): string {
    const begun = text.slice(0, Math.min(TEXT_LENGTH_MAX, lengthMax * 2));
    const whole = begun.replace(URL_PASSWORD, `$1${MASK}@`);
    if (this.#known.size === 0) return shortened(whole, lengthMax);
    const masked = this.#masked(whole, begun.length < text.length);
    for (const view of decodings(masked)) {
      if (this.#masked(view) !== view) return WITHHELD;
    }
    return shortened(masked, lengthMax);
  }

  /**
   * Whether `value`, which comes from a peer and must be kept unchanged (such as a sequence),
   * contains a secret in any encoding. Very short secrets are ignored: any value can contain them
   * by chance.
   */
  isRepeatedIn(value: unknown): boolean {
    if (this.#known.size === 0 || typeof value === "number") return false;
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    return [text, ...decodings(text)].some((view) => {
      const folded = view.toLowerCase();
      for (let at = 0; at < folded.length; at++) {
        if (this.#secretAt(folded, at, false) >= REPEATED_LENGTH_MIN) return true;
      }
      return false;
    });
  }

  /**
   * Masks secrets that appear verbatim. `isCut`: the text was truncated, so its end might be the
   * start of a secret.
   */
  #masked(text: string, isCut = false): string {
    const folded = text.toLowerCase();
    let masked = "";
    let copied = 0;
    for (let at = 0; at < text.length; at++) {
      const length = this.#secretAt(folded, at, isCut);
      if (length === 0) continue;
      masked += text.slice(copied, at) + MASK;
      copied = at + length;
      at = copied - 1;
    }
    return copied === 0 ? text : masked + text.slice(copied);
  }

  /** Returns the length of the longest secret at this position, or 0. */
  #secretAt(text: string, at: number, isCut: boolean): number {
    let longest = 0;
    for (const secret of this.#byKey.get(keyOf(text, at)) ?? []) {
      const isBegun = isCut && text.length - at >= LENGTH_MIN && secret.startsWith(text.slice(at));
      if (isBegun || text.startsWith(secret, at)) longest = Math.max(longest, secret.length);
    }
    if (longest > 0 || this.#short.size === 0 || isWordAt(text, at - 1)) return longest;
    for (const secret of this.#short) {
      const isHere = text.startsWith(secret, at) && !isWordAt(text, at + secret.length);
      if (isHere) longest = Math.max(longest, secret.length);
    }
    return longest;
  }

  #forgetOldest(): void {
    const [oldest = ""] = this.#known;
    this.#known.delete(oldest);
    this.#short.delete(oldest);
    const key = keyOf(oldest);
    const alike = this.#byKey.get(key);
    alike?.delete(oldest);
    if (alike?.size === 0) this.#byKey.delete(key);
  }
}

/** Returns the first two characters at a position as a number. */
function keyOf(text: string, at = 0): number {
  return text.charCodeAt(at) * 0x10000 + text.charCodeAt(at + 1);
}

function shortened(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}

/**
 * Whether the character is a letter or digit. A very short secret is matched only as a whole word.
 */
function isWordAt(text: string, at: number): boolean {
  return at >= 0 && /[\p{L}\p{N}]/u.test(text.charAt(at));
}

/** Returns the decoded forms of a string, for each encoding and for nested encodings. */
function decodings(text: string): ReadonlySet<string> {
  const views = new Set<string>();
  let length = 0;
  let round: readonly string[] = [text];
  for (let count = 0; count < ROUNDS_MAX; count++) {
    const next: string[] = [];
    for (const view of round) {
      for (const decode of DECODERS) {
        const decoded = decode(view);
        if (decoded === text || views.has(decoded)) continue;
        length += decoded.length;
        if (length > DERIVED_LENGTH_MAX) return views;
        views.add(decoded);
        next.push(decoded);
      }
    }
    round = next;
  }
  return views;
}

const DECODERS: readonly ((text: string) => string)[] = [
  plainText,
  (text) => plainText(text.replaceAll("+", " ")),
  ...[0, 1, 2, 3].map(
    (offset) => (text: string) => text.replace(BASE64, (run) => base64Text(run, offset)),
  ),
  ...[0, 1].map((offset) => (text: string) => text.replace(HEX, (run) => hexText(run, offset))),
];

/** Returns the text with every per-character encoding decoded. */
function plainText(text: string): string {
  let plain = text.replace(HIDDEN, "");
  if (plain.includes("%")) plain = percentText(plain);
  if (plain.includes("\\")) plain = plain.replace(ESCAPE, escapeText);
  if (plain.includes("&")) plain = plain.replace(ENTITY, entityText);
  if (READ_AS_LATIN_1.test(plain)) plain = utf8(Uint8Array.from(plain, byteOf));
  return plain.replace(HIDDEN, "").normalize("NFC");
}

/** Matches UTF-8 that was decoded as Latin-1. */
const READ_AS_LATIN_1 = /^[^\u0100-\uffff]*[\xc2-\xf4][\x80-\xbf][^\u0100-\uffff]*$/;

function percentText(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) =>
    utf8(hexDecode(run.replaceAll("%", "")) ?? EMPTY_BYTES),
  );
}

const ESCAPE = /\\(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|x([0-9a-f]{2})|(.))/gis;

function escapeText(all: string, ...parts: (string | undefined)[]): string {
  const [four, any, two, plain] = parts;
  return plain ?? character(Number.parseInt(four ?? any ?? two ?? "", 16), all);
}

const ENTITY = /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));?/gi;

function entityText(all: string, ...parts: (string | undefined)[]): string {
  const [hex, decimal, name] = parts;
  if (name !== undefined) return ENTITIES.get(name.toLowerCase()) ?? all;
  const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  return character(code, all);
}

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["amp", "&"],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
]);

const BASE64 = /[a-z0-9+/_-]{6,}/gi;
const HEX = /(?:[0-9a-f][\s:]?){8,}/gi;

/** Decodes a run of base64 whose groups of four begin at `offset`. */
function base64Text(run: string, offset: number): string {
  const groups = run.slice(offset).replaceAll("-", "+").replaceAll("_", "/");
  // A single trailing character encodes no byte.
  const whole = groups.length % 4 === 1 ? groups.slice(0, -1) : groups;
  const decoded = utf8(base64Decode(whole, { isPadded: false }) ?? EMPTY_BYTES);
  // Ignores a decoded text with unreadable bytes, because most words of a sentence are valid
  // base64.
  return READABLE.test(decoded.replace(HIDDEN, "")) ? decoded : run;
}

/** Matches ASCII control characters and zero-width characters. */
const HIDDEN = /(?![\x80-\x9f])[\p{Cc}\u200b-\u200f\u2060\ufeff]/gu;

const READABLE = new RegExp(`[^\\p{C}\\ufffd]{${LENGTH_MIN}}`, "u");

function hexText(run: string, offset: number): string {
  const digits = run.replace(/[\s:]/g, "").slice(offset);
  return utf8(hexDecode(digits.slice(0, digits.length & ~1)) ?? EMPTY_BYTES);
}

const decoder = new TextDecoder();

function utf8(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

function byteOf(char: string): number {
  return (char.codePointAt(0) ?? 0) & 0xff;
}

function character(code: number, otherwise: string): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : otherwise;
}
