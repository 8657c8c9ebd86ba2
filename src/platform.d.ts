/**
 * The globals that every layer may use. They are the same in Node.js, in a browser and in the
 * simulator, and give no access to a clock, randomness or a device. Everything else is passed as a
 * value (`base/runtime.ts`).
 */

interface AbortSignal {
  readonly aborted: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: the platform's own declaration; a reason can be anything.
  readonly reason: any;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

declare var AbortSignal: {
  abort(reason?: unknown): AbortSignal;
  any(signals: readonly AbortSignal[]): AbortSignal;
};

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class TextEncoder {
  encode(text?: string): Uint8Array;
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}

declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(bytes?: Uint8Array, options?: { stream?: boolean }): string;
}

/**
 * Exists only in Node.js, so it must be accessed as `globalThis.Buffer`. The undocumented methods
 * convert between bytes and strings without an intermediate object.
 */
declare var Buffer:
  | undefined
  | {
      readonly prototype: {
        readonly latin1Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** Replaces invalid UTF-8. */
        readonly utf8Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** Returns the index of the first such byte, or -1. */
        readonly indexOf?: (this: Uint8Array, byte: number) => number;
        readonly base64Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** Skips characters outside the base64 alphabet. Returns the number of bytes written. */
        readonly base64Write?: (this: Uint8Array, text: string) => number;
      };
    };

// biome-ignore lint/suspicious/noShadowRestrictedNames: it is declared here, not shadowed.
declare function encodeURIComponent(text: string): string;
// biome-ignore lint/suspicious/noShadowRestrictedNames: it is declared here, not shadowed.
declare function decodeURIComponent(text: string): string;

declare class URLSearchParams {
  constructor(init?: string);
  get(name: string): string | null;
  has(name: string): boolean;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

declare class URL {
  constructor(url: string, base?: string);
  static canParse(url: string): boolean;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly origin: string;
  readonly href: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
}
