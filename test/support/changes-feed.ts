/** Changes feeds of a server. Tests use them to wait for documents. */

/** Heartbeat interval. Heartbeats keep an idle feed from being treated as stalled. */
const HEARTBEAT = "heartbeat=10000";

interface Change {
  readonly id: string;
  readonly deleted?: boolean;
}

/** Resolves once the database exists and `passes` accepts the ids of its non-deleted documents. */
export async function onceThere(
  serverUrl: string,
  database: string,
  passes: (ids: ReadonlySet<string>) => boolean,
): Promise<void> {
  await onceCreated(serverUrl, database);
  const ids = new Set<string>();
  const path = `/${encodeURIComponent(database)}/_changes?feed=continuous&since=0&${HEARTBEAT}`;
  for await (const { id, deleted } of rowsOf<Change>(serverUrl + path)) {
    if (deleted === true) ids.delete(id);
    else ids.add(id);
    if (passes(ids)) return;
  }
}

async function onceCreated(serverUrl: string, database: string): Promise<void> {
  const path = `/_db_updates?feed=continuous&since=0&${HEARTBEAT}`;
  for await (const { db_name: name, type } of rowsOf<Record<string, string>>(serverUrl + path)) {
    if (name === database && type !== "deleted") return;
  }
}

/** Yields the rows of a continuous changes feed. Throws an error when the feed ends. */
async function* rowsOf<Row>(url: string): AsyncGenerator<Row> {
  const { status, body } = await fetch(url);
  if (status !== 200 || body === null) throw new Error(`${url}: ${status}`);
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as Row;
  }
  throw new Error(`${url}: the feed ended`);
}
