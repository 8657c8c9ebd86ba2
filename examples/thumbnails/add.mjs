/** Adds a job for each PNG attachment of a database: `node add.mjs DIRECTORY DATABASE`. */
import { openNode } from "couch-tandem";

const [directory, database] = process.argv.slice(2);
const node = await openNode({ store: { kind: "lmdb", directory }, roles: ["api_frontend"] });
const response = await node.fetch(`/${database}/_all_docs?include_docs=true`);
const { rows } = await response.json();
const images = rows.flatMap(({ id, doc }) =>
  Object.entries(doc._attachments ?? {})
    .filter(([, { content_type: type }]) => type === "image/png")
    .map(([name, { digest }]) => ({
      // The digest makes an image that was replaced another job.
      id: `${id}/${name}/${digest}`,
      path: `/${database}/${encodeURIComponent(id)}/${encodeURIComponent(name)}`,
    })),
);
await node.store.transact(async (tx) => {
  await node.jobs.register(tx, "thumbnail");
  for (const { id, path } of images) {
    const name = { type: "thumbnail", id };
    if ((await node.jobs.get(tx, name)) === undefined) await node.jobs.add(tx, name, { path });
  }
});
process.stdout.write(`${images.length} images\n`);
await node.close();
