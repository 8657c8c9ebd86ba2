/** Temporary databases of a CouchDB for the benchmarks in this folder. */
import { call } from "./nodes.mjs";

const PREFIX = "tandem-bench";

/**
 * Removes databases of earlier runs, and creates a source that `load(server, name)` fills. Returns
 * it, and a function for URLs of new targets. `url` has an administrator's name and password.
 */
export async function openCouch(url, load) {
  const server = { url: url.replace(/\/$/, "") };
  const source = `${PREFIX}-source`;
  const close = async () => {
    const names = await call(server, "GET", "/_all_dbs");
    for (const name of names.filter((each) => each.startsWith(PREFIX))) {
      await call(server, "DELETE", `/${name}`);
    }
  };
  await close();
  await load(server, source);
  let targetCount = 0;
  return {
    server,
    source: `${server.url}/${source}`,
    newTarget: () => `${server.url}/${PREFIX}-target-${++targetCount}`,
    close,
  };
}
