/**
 * Where and of what class the last failure of a job was: by this, jobs that fail are grouped. A cause has a text, which begins with the
 * host, so that the causes of a host stand together. Pure.
 */
import { FAILURE_CLASSES, type FailureClass } from "../../contract/index.ts";
import type { FailureCause } from "./failing.ts";
import { listedName } from "./listed-name.ts";

/** Undefined members have no meaning for the failure, or are not known. */
export type FailureCauseKey = Pick<FailureCause, "class" | "side" | "host">;
export type FailureSide = NonNullable<FailureCause["side"]>;

export const FAILURE_SIDES: readonly FailureSide[] = ["source", "target"];
/** In place of a side or host that there is none of; no host has this name. */
export const NONE = "-";
/** No host has it. */
const BAR = "|";

/** Which failures are asked for; an absent member asks for any. */
export interface CauseFilter {
  readonly error?: FailureClass;
  readonly side?: FailureSide | typeof NONE;
  /** `HOST`, on any port, `HOST:PORT`, or `HOST:` for the scheme's own port; `-` for failures without one. */
  readonly host?: string;
}

export function causeKeyText({ class: failureClass, side, host }: FailureCauseKey): string {
  return [host ?? NONE, side ?? NONE, failureClass].join(BAR);
}

/** Undefined for what `causeKeyText` does not make. */
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

/** Whether the host, with its port, is the one that was named. */
function isAtHost(named: string, host: string): boolean {
  if (hasOwnPort(named)) return host === named.slice(0, -1);
  return host === named || (host.startsWith(named) && /^:\d+$/.test(host.slice(named.length)));
}

/** What the texts of the causes at a host begin with, in order: with a port, and without one. */
export function causePrefixes(host: string): readonly string[] {
  const named = listedHost(host);
  return hasOwnPort(named) ? [`${named.slice(0, -1)}${BAR}`] : [`${named}:`, `${named}${BAR}`];
}

/** An empty port is that of the scheme (RFC 3986), which hosts do not show. */
function hasOwnPort(named: string): boolean {
  return named.endsWith(":");
}

function listedHost(host: string): string {
  return listedName(host.toLowerCase());
}
