/**
 * Parses the URLs of endpoints. An address contains its URL as text, so the parsed URL is cached.
 */
import { assert } from "../../base/index.ts";
import type { HttpAddress } from "./replication.ts";

export interface EndpointUrl {
  /** Scheme without the colon: `https` or `http`. */
  readonly scheme: string;
  /**
   * Origin, such as `https://example.com:6984`. Like `host` and `hostname`, in lower case and
   * without a default port.
   */
  readonly origin: string;
  /** Host with any non-default port: `example.com:6984`. */
  readonly host: string;
  /** Host without a port: `example.com`. */
  readonly hostname: string;
  readonly written: WrittenUrl;
}

/**
 * The URL as written. Replication ids are computed from this form, because CouchDB neither changes
 * it to lower case nor decodes it.
 */
export interface WrittenUrl {
  readonly isHttps: boolean;
  /** Host as written, without the brackets of an IPv6 address. */
  readonly host: string;
  /** Port; the scheme's default port if the URL has none. */
  readonly port: number;
  /** Path as written, with the query. */
  readonly path: string;
}

const PARSED = new WeakMap<HttpAddress, EndpointUrl>();

/**
 * Returns the parts of an address's URL. The URL must be valid, as it is in every parsed or stored
 * address.
 */
export function endpointUrl(address: HttpAddress): EndpointUrl {
  const parsed = validEndpointUrl(address);
  assert(parsed !== undefined, "The URL of an address must be valid");
  return parsed;
}

/** Returns the parts of an address's URL; undefined if the URL is invalid. */
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

/** Parses a URL of any scheme; undefined if invalid. */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns the scheme of a URL, such as `https`, `http` or `socks5`; empty if the URL is invalid.
 */
export function schemeOf(text: string): string {
  return parseUrl(text)?.protocol.slice(0, -1) ?? "";
}
