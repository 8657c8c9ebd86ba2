/**
 * The few globals that every layer may name: they are the same in Node.js, in a browser and under the simulator, and none
 * of them is a clock, a die or a device. All else comes in as a value (`base/runtime.ts`).
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
 * In Node.js alone, so to be asked for as `globalThis.Buffer`: its methods, which no manual promises, make texts of bytes, and bytes of
 * texts, without an object in between.
 */
declare var Buffer:
  | undefined
  | {
      readonly prototype: {
        readonly latin1Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** What is no UTF-8 is replaced. */
        readonly utf8Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** Of a byte, -1 when there is none. */
        readonly indexOf?: (this: Uint8Array, byte: number) => number;
        readonly base64Slice?: (this: Uint8Array, begin: number, end: number) => string;
        /** What is no base64 is left out. The number of bytes. */
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
