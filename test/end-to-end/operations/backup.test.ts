/**
 * `tandem backup` of a running node, `tandem restore` on another node when the first is gone, and
 * `tandem store compact`.
 */
import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { onceThere } from "../../support/changes-feed.ts";
import { canMountMemory, memoryDisk, withMount } from "../../support/mounts.ts";
import { Processes, type TandemProcess } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const INI = `
[replicator]
worker_lease_sec = 2
checkpoint_interval = 100
worker_processes = 1
worker_batch_size = 50
park_after_sec = 1
`;

const processes = new Processes();
afterAll(() => processes.close());

async function tandem(...flags: string[]): Promise<{ code: number; text: string }> {
  const { code, output, errors } = await run(flags);
  return { code, text: output + errors };
}

/**
 * Writes documents one after the other until `stop` is called. `acknowledged` contains the ids of
 * the documents acknowledged so far.
 */
function startWriter(node: TandemProcess, database: string) {
  const acknowledged: string[] = [];
  let isStopped = false;
  const ended = (async () => {
    for (let number = 0; !isStopped; number++) {
      const id = `written-${number}`;
      const { status } = await node.call("PUT", `/${database}/${id}`, { number });
      if (status === 201) acknowledged.push(id);
    }
  })().catch(() => {});
  return {
    acknowledged,
    stop: (): Promise<void> => {
      isStopped = true;
      return ended;
    },
  };
}

/** Resolves when the job of a document has copied everything and has written its checkpoint. */
async function onceParked(node: TandemProcess, id: string): Promise<void> {
  await node.onceAnswered(
    () => node.call("GET", `/_tandem/jobs/_replicator%2F${id}`),
    ({ body }) => body.parked === true,
  );
}

async function revisions(node: TandemProcess, database: string): Promise<Record<string, string[]>> {
  const { body } = await node.call("GET", `/${database}/_all_docs`);
  const rows = body.rows as { id: string; value: { rev: string } }[];
  return Object.fromEntries(rows.map(({ id, value }) => [id, [value.rev]]));
}

test("a backup of a running node, restored elsewhere after kill -9, has all acknowledged data, and jobs continue", async () => {
  const target = await processes.open();
  const oldDirectory = processes.directory();
  const first = await processes.open({ ini: INI, directory: oldDirectory });
  const { uuid } = (await first.call("GET", "/")).body;
  await load(first, "films", sampleLines("films"));
  await first.call("PUT", "/notes");
  for (const source of ["films", "notes"]) {
    await first.call("PUT", `/_replicator/${source}`, {
      source,
      target: `${target.url}/${source}`,
      create_target: true,
      continuous: true,
    });
  }
  // One job copies continuously. The other job is parked, so that its number of checkpoints until
  // the kill does not depend on time.
  await onceParked(first, "films");
  const writer = startWriter(first, "notes");
  await onceThere(first.url, "notes", ({ size }) => size >= 20);
  const folder = processes.directory();
  const acknowledgedBefore = [...writer.acknowledged];
  const made = await tandem("backup", "--data-dir", join(oldDirectory, "data"), folder);
  expect(made).toMatchObject({ code: 0, text: expect.stringContaining("complete") });
  const [name = ""] = readdirSync(folder);
  const file = join(folder, name);
  await first.call("PUT", "/films/lost", {});
  await onceThere(target.url, "films", (ids) => ids.has("lost"));
  await first.kill();
  await writer.stop();
  expect(writer.acknowledged.length).toBeGreaterThan(acknowledgedBefore.length);

  expect(await tandem("backup", "verify", file)).toMatchObject({ code: 0 });
  const directory = processes.directory();
  const restored = await tandem("restore", file, "--data-dir", join(directory, "data"));
  expect(restored).toMatchObject({ code: 0 });
  // Secrets are sealed in the backup. Their key is not part of the backup.
  cpSync(join(oldDirectory, "data.key"), join(directory, "data.key"));
  const second = await processes.open({ ini: INI, directory });
  expect((await second.call("GET", "/")).body.uuid).toBe(uuid);
  const notes = await revisions(second, "notes");
  expect(acknowledgedBefore.filter((id) => notes[id] === undefined)).toEqual([]);
  // The worker that held the restored jobs no longer exists, so they are requeued and continue.
  await second.call("PUT", "/films/later", {});
  await second.call("PUT", "/notes/later", {});
  expect(Object.keys(await revisions(second, "films"))).toHaveLength(3024);
  for (const database of ["films", "notes"]) {
    const there = await revisions(second, database);
    await onceThere(target.url, database, (ids) => Object.keys(there).every((id) => ids.has(id)));
    expect((await target.call("POST", `/${database}/_revs_diff`, there)).body).toEqual({});
  }
  await onceParked(second, "films");
  const { body: checkpoints } = await second.call("GET", "/films/_local_docs?include_docs=true");
  const [{ doc }] = checkpoints.rows;
  expect(doc.history[0].start_last_seq).not.toBe(0);
});

test("a damaged backup is refused with a message and exit code 1, and creates no store", async () => {
  const directory = processes.directory();
  const node = await processes.open({ directory });
  const data = join(directory, "data");
  await load(node, "films", sampleLines("films").slice(0, 500));
  const folder = processes.directory();
  const file = join(folder, "whole");
  expect((await tandem("backup", "--data-dir", data, file)).code).toBe(0);
  const bytes = readFileSync(file);
  const damaged = join(folder, "damaged");
  const middle = Buffer.from(bytes);
  middle[Math.floor(bytes.length / 2)] = (bytes[Math.floor(bytes.length / 2)] as number) ^ 1;
  for (const [content, reason] of [
    [middle, "the checksum of a block is wrong"],
    [bytes.subarray(0, -100), "the file is truncated"],
    [Buffer.from("not a backup at all"), "the file does not have a known backup format"],
  ] as const) {
    writeFileSync(damaged, content);
    const text = expect.stringContaining(`tandem: The backup is damaged: ${reason}`);
    expect(await tandem("backup", "verify", damaged)).toMatchObject({ code: 1, text });
    const store = join(folder, "store");
    expect(await tandem("restore", damaged, "--data-dir", store)).toMatchObject({ code: 1, text });
    expect(existsSync(store)).toBe(false);
  }
  const missing = join(folder, "missing");
  for (const [path, reason] of [
    [missing, `${missing}: there is no such file or folder`],
    [folder, `${folder} is a folder`],
  ] as const) {
    const text = expect.stringContaining(reason);
    expect(await tandem("backup", "verify", path)).toMatchObject({ code: 1, text });
    const into = join(folder, "into", "store");
    expect(await tandem("restore", path, "--data-dir", into)).toMatchObject({ code: 1, text });
    expect(existsSync(join(folder, "into"))).toBe(false);
  }
  // A second backup does not overwrite the first, and a restoration does not overwrite the store in
  // use.
  expect(await tandem("backup", "--data-dir", data, file)).toMatchObject({ code: 1 });
  expect(await tandem("restore", file, "--data-dir", data)).toMatchObject({
    code: 1,
    text: expect.stringMatching(
      /^tandem: \S+ already has a store, and nothing was restored; .*use --replace/,
    ),
  });
  expect(await tandem("restore", file, "--data-dir", data, "--replace")).toMatchObject({
    code: 1,
    text: expect.stringContaining("another process has opened"),
  });
  expect(readFileSync(file).equals(bytes)).toBe(true);
});

test.skipIf(!canMountMemory)("a backup to a full disk does not leave a file behind", async () => {
  const directory = processes.directory();
  const node = await processes.open({ directory });
  const data = join(directory, "data");
  await load(node, "films", sampleLines("films"));
  await withMount(processes.directory(), memoryDisk(1), async (folder) => {
    const ended = await tandem("backup", "--data-dir", data, join(folder, "copy"));
    expect(ended).toMatchObject({ code: 1, text: expect.stringContaining("the disk is full") });
    expect(readdirSync(folder)).toEqual([]);
  });
});

test("compacting frees the space of removed databases, and keeps data and sequences", async () => {
  const directory = processes.directory();
  const data = join(directory, "data");
  const first = await processes.open({ directory });
  await load(first, "removed", sampleLines("films"));
  await load(first, "films", sampleLines("films").slice(0, 100));
  const before = await first.call("GET", "/films/_changes");
  const refused = await tandem("store", "compact", "--data-dir", data);
  expect(refused).toMatchObject({
    code: 1,
    text: expect.stringContaining("has opened: stop that process"),
  });
  const space = async () => {
    const response = await fetch(`${first.url}/_node/_local/_prometheus`);
    const metrics = await response.text();
    const sample = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(metrics)?.[1]);
    return { file: sample("tandem_store_file_bytes"), free: sample("tandem_store_free_bytes") };
  };
  const full = await space();
  await first.call("DELETE", "/removed");
  const freed = await first.onceAnswered(space, ({ free }) => free > full.free + 2_000_000);
  await first.stop();
  const file = join(data, "data.mdb");
  const byteCount = statSync(file).size;
  // An interrupted compaction leaves a file with this name.
  cpSync(file, join(data, "old-data.mdb"));
  const compacted = await tandem("store", "compact", "--data-dir", data);
  expect(compacted).toMatchObject({ code: 0, text: expect.stringMatching(/before, .* MiB now/) });
  expect(statSync(file).size).toBeLessThan(byteCount - freed.free / 2);
  expect(existsSync(join(data, "old-data.mdb"))).toBe(false);
  const second = await processes.open({ directory });
  expect(await second.call("GET", "/films/_changes")).toEqual(before);
  await second.call("PUT", "/films/later", {});
  const since = before.body.last_seq;
  const { body } = await second.call("GET", `/films/_changes?since=${since}`);
  expect(body.results).toMatchObject([{ id: "later" }]);
});
