/** The code of a filter function, which is part of the replication's id: another filter is another replication. */
import { type Endpoint, EndpointError } from "./endpoint.ts";
import type { Replication } from "./replication.ts";
import { userFilter } from "./replication-id.ts";

/** The code of a user filter as the source has it; undefined when the replication has none. */
export async function readFilterCode(
  { selection }: Replication,
  open: () => Endpoint,
  signal: AbortSignal,
): Promise<string | undefined> {
  const filter = userFilter(selection);
  if (filter === undefined) return undefined;
  const source = open();
  const id = `_design/${filter.designDocument}`;
  const text = await source.readDocument(id, signal);
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
