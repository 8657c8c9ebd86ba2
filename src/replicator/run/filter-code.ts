/** Reads the code of a filter function. The code is part of the replication id. */
import { type Clock, finishWithin } from "../../base/index.ts";
import { type Endpoint, EndpointError } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import { userFilter } from "../request/replication-id.ts";

/** Timeout for reading a filter from the source. */
export interface FilterTimeLimit {
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/**
 * Returns the source's code of the filter, or undefined if the replication uses no filter function.
 * Throws an EndpointError: `filter_fetch_error` if the source lacks the filter, or `timeout`.
 */
export async function readFilterCode(
  { selection }: Replication,
  open: () => Endpoint,
  { clock, timeoutMs }: FilterTimeLimit,
  signal: AbortSignal,
): Promise<string | undefined> {
  const filter = userFilter(selection);
  if (filter === undefined) return undefined;
  const source = open();
  const id = `_design/${filter.designDocument}`;
  const text = await finishWithin(clock, timeoutMs, signal, {
    work: (limited) => source.readDocument(id, limited),
    late: () => {
      const shown = `\`${id}\` of the source \`${source.shownUrl}\``;
      const reason = `The filter in ${shown} could not be read within ${timeoutMs / 1000} s`;
      return new EndpointError("timeout", reason);
    },
  });
  if (text === undefined) {
    throw new EndpointError(
      "filter_fetch_error",
      `Couldn't open document \`${id}\` from source database \`${source.shownUrl}\`: not_found`,
    );
  }
  const code = JSON.parse(text)?.filters?.[filter.filterName];
  if (typeof code !== "string") {
    throw new EndpointError(
      "filter_fetch_error",
      `Couldn't parse filter code from document ${id} on \`${source.shownUrl}\``,
    );
  }
  return code;
}
