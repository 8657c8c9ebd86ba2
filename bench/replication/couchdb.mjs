/** Databases of a CouchDB, made for a program of this folder and removed by it. */
import { call } from "./nodes.mjs";

const PREFIX = "tandem-bench";

/**
 * A source that `load(server, name)` fills, and new targets, without what an earlier run may have left. `url` has an administrator's
 * name and password.
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
