/**
 * Keys for grouping failing jobs by class, side and host of their last failure. The text of a key
 * begins with the host, so that keys of one host are adjacent. Pure.
 */
import { FAILURE_CLASSES, type FailureClass, NONE } from "../../contract/index.ts";
import type { FailureCause } from "./failing.ts";
import { listedName } from "./listed-name.ts";

/** Cause by which jobs are grouped. Members are undefined if unknown or not applicable. */
export type FailureCauseKey = Pick<FailureCause, "class" | "side" | "host">;
export type FailureSide = NonNullable<FailureCause["side"]>;

export const FAILURE_SIDES: readonly FailureSide[] = ["source", "target"];
/** Separator; cannot occur in host names. */
const BAR = "|";

/** Filter for failures. An absent member matches every failure. */
export interface CauseFilter {
  readonly error?: FailureClass;
  readonly side?: FailureSide | typeof NONE;
  /**
   * `HOST` matches any port, `HOST:PORT` one port, and `HOST:` the default port. `-` matches
   * failures without a host.
   */
  readonly host?: string;
}

export function causeKeyText({ class: failureClass, side, host }: FailureCauseKey): string {
  return [host ?? NONE, side ?? NONE, failureClass].join(BAR);
}

/** Parses a key. Returns undefined for a string not created by `causeKeyText`. */
export function parseCauseKey(text: string): FailureCauseKey | undefined {
  const parts = text.split(BAR);
  const failureClass = FAILURE_CLASSES.find((name) => name === parts.at(-1));
  if (failureClass === undefined || parts.length < 3) return undefined;
  const side = FAILURE_SIDES.find((name) => name === parts.at(-2));
  const host = parts.slice(0, -2).join(BAR);
  return { class: failureClass, side, host: host === NONE ? undefined : host };
}

export function matchesCause(
  { error, side, host }: CauseFilter,
  cause: FailureCauseKey | undefined,
): boolean {
  if (cause === undefined) return error === undefined && side === undefined && host === undefined;
  return (
    (error === undefined || error === cause.class) &&
    (side === undefined || side === (cause.side ?? NONE)) &&
    (host === undefined || isAtHost(listedHost(host), cause.host ?? NONE))
  );
}

/**
 * Whether `host` matches `named`, the host in a filter. Without a port, `named` matches any port.
 */
function isAtHost(named: string, host: string): boolean {
  if (hasEmptyPort(named)) return host === named.slice(0, -1);
  return host === named || (host.startsWith(named) && /^:\d+$/.test(host.slice(named.length)));
}

/** Returns the prefixes of the keys of failures at `host`, in ascending order. */
export function causePrefixes(host: string): readonly string[] {
  const named = listedHost(host);
  return hasEmptyPort(named) ? [`${named.slice(0, -1)}${BAR}`] : [`${named}:`, `${named}${BAR}`];
}

/**
 * Whether the host in a filter has an empty port, which denotes the scheme's default port (RFC
 * 3986). Stored hosts omit the default port.
 */
function hasEmptyPort(named: string): boolean {
  return named.endsWith(":");
}

function listedHost(host: string): string {
  return listedName(host.toLowerCase());
}
