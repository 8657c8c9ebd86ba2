/**
 * A worker that makes thumbnails of PNG attachments. Start it in as many processes as you like on
 * one store: `node worker.mjs DIRECTORY`. Requires the package `pngjs`.
 */
import { openNode } from "couch-tandem";
import { Subspace } from "couch-tandem/kv";
import { PNG } from "pngjs";

const SIDE = 32;
/** Keys below this tuple: ("thumbnails", id) has the image, ("thumbnails") their number. */
export const THUMBNAILS = Subspace.fromTuple(["thumbnails"]);

export const thumbnails = (node) => ({
  type: "thumbnail",
  concurrency: 2,
  retrySec: 5,
  onError: (error, { id }) => process.stderr.write(`${id}: ${error}\n`),
  async run({ id, data, signal, transact }) {
    const response = await node().fetch(data.path, { signal });
    if (!response.ok) throw new Error(`${data.path}: ${response.status}`);
    const image = PNG.sync.read(Buffer.from(await response.arrayBuffer()));
    const small = PNG.sync.write(scaled(image));
    // Fails if another worker has taken over the job, so each thumbnail is recorded exactly once.
    await transact(async (tx, job) => {
      tx.set(THUMBNAILS.pack([id]), small);
      tx.add(THUMBNAILS.prefix, 1n);
      await job.finish({ bytes: small.length });
    });
  },
});

/** The image in at most SIDE pixels each way, from the nearest pixels. */
function scaled(image) {
  const ratio = Math.min(1, SIDE / Math.max(image.width, image.height));
  const small = new PNG({
    width: Math.max(1, Math.round(image.width * ratio)),
    height: Math.max(1, Math.round(image.height * ratio)),
  });
  for (let y = 0; y < small.height; y++) {
    for (let x = 0; x < small.width; x++) {
      const from = image.width * Math.floor(y / ratio) + Math.floor(x / ratio);
      image.data.copy(small.data, 4 * (small.width * y + x), 4 * from, 4 * from + 4);
    }
  }
  return small;
}

if (import.meta.filename === process.argv[1]) {
  const store = { kind: "lmdb", directory: process.argv[2] };
  const node = await openNode({ store, types: [thumbnails(() => node)] });
  process.on("SIGTERM", () => node.close());
  process.stdout.write("working\n");
}
