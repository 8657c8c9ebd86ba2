/**
 * Parses the URL of an endpoint. Addresses hold the URL as one text, which is also what jobs store. It is parsed only
 * here, once for each address.
 */
import { assert } from "../../base/index.ts";
import type { HttpAddress } from "./replication.ts";

export interface EndpointUrl {
  /** `https`, `http`. */
  readonly scheme: string;
  /** `https://example.com:6984`. Like `host` and `hostname` in lower case, and without the scheme's default port. */
  readonly origin: string;
  /** `example.com:6984`. */
  readonly host: string;
  /** `example.com`. */
  readonly hostname: string;
  readonly written: WrittenUrl;
}

/** The same as it was written, which is how replication ids have it: CouchDB puts nothing into lower case, and decodes nothing. */
export interface WrittenUrl {
  readonly isHttps: boolean;
  /** Without the brackets of an IPv6 address. */
  readonly host: string;
  /** The scheme's, if none is written. */
  readonly port: number;
  /** With the query. */
  readonly path: string;
}

const PARSED = new WeakMap<HttpAddress, EndpointUrl>();

/** Of an address that was parsed, now or by the version that stored it. */
export function endpointUrl(address: HttpAddress): EndpointUrl {
  const parsed = validEndpointUrl(address);
  assert(parsed !== undefined, "The URL of an address is valid");
  return parsed;
}

/** Undefined when the URL is none. */
export function validEndpointUrl(address: HttpAddress): EndpointUrl | undefined {
  const known = PARSED.get(address);
  if (known !== undefined) return known;
  const url = parseUrl(address.url);
  if (url === undefined) return undefined;
  const { protocol, origin, host, hostname } = url;
  const scheme = protocol.slice(0, -1);
  const parsed = { scheme, origin, host, hostname, written: writtenUrl(address.url) };
  PARSED.set(address, parsed);
  return parsed;
}

export function writtenUrl(url: string): WrittenUrl {
  const match = /^(https?):\/\/(\[[^\]]*\]|[^:/?#]*)(?::(\d+))?(.*)$/is.exec(url);
  const [, scheme = "http", host = "", port, path = "/"] = match ?? [];
  const isHttps = scheme.toLowerCase() === "https";
  return {
    isHttps,
    host: host.replace(/^\[|\]$/g, ""),
    port: port === undefined ? (isHttps ? 443 : 80) : Number(port),
    path: path.startsWith("/") ? path : `/${path}`,
  };
}

/** A URL of any scheme; undefined for a text that is none. */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** `http`, `https`, `socks5`; empty for a text that is not a URL. */
export function schemeOf(text: string): string {
  return parseUrl(text)?.protocol.slice(0, -1) ?? "";
}
