/**
 * Options that a node reads at its start, from the command line, the environment and the
 * configuration file.
 */
import { writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openServer, readConfig } from "../../src/server/index.ts";
import { withDirectory } from "../support/with-directory.ts";

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);

test.each([
  [{ dataDirectory: "" }, {}, "--data-dir: expected a value, but it is empty"],
  [{ bindAddress: "" }, {}, "--bind-address: expected a value, but it is empty"],
  [{ replicationProcesses: 257 }, {}, "--replication-processes 257: expected at most 256"],
  [{}, { TANDEM_PORT: "65536" }, "TANDEM_PORT = 65536: expected an integer of 0 to 65535"],
  [{}, { TANDEM_PORT: "5e3" }, "TANDEM_PORT = 5e3: expected an integer of 0 to 65535"],
  [
    {},
    { TANDEM_REPLICATION_PROCESSES: "99999999999999" },
    "TANDEM_REPLICATION_PROCESSES = 99999999999999: expected an integer of 0 to 256",
  ],
  [
    {},
    { COUCHDB_NODE_TYPE_REPLICATION: "no" },
    "COUCHDB_NODE_TYPE_REPLICATION = no: expected true or false",
  ],
])("the options %j with the environment %j are refused", (options, environment, message) => {
  const start = () => readConfig({ store: "memory", ...options }, environment);
  expect(start).toThrow(message);
});

test("empty environment variables count as unset", () => {
  const empty = {
    TANDEM_BIND_ADDRESS: "",
    TANDEM_DATA_DIR: "",
    TANDEM_PORT: "",
    TANDEM_CONFIG: "",
  };
  const { bindAddress, dataDirectory, port } = readConfig({ store: "memory" }, empty);
  expect({ bindAddress, dataDirectory, port }).toEqual({
    bindAddress: "127.0.0.1",
    dataDirectory: "./data",
    port: 5984,
  });
});

test.each([
  [{ COUCHDB_NODE_TYPE_REPLICATION: "False" }, ["api_frontend"]],
  [{ COUCHDB_NODE_TYPE_API_FRONTEND: "false" }, ["replication"]],
  [
    { COUCHDB_NODE_TYPE_REPLICATION: "TRUE", COUCHDB_NODE_TYPE_API_FRONTEND: "" },
    ["api_frontend", "replication"],
  ],
])("with the environment %j, a node has the types %j", (environment, types) => {
  const { nodeTypes } = readConfig({ store: "memory" }, environment);
  expect([...nodeTypes]).toEqual(types);
});

test("a configuration file that is not valid UTF-8 is refused", async () => {
  await withDirectory(async (directory) => {
    const configFile = join(directory, "tandem.ini");
    writeFileSync(configFile, Buffer.from("[admins]\nadmin = s\xe9cret\n", "latin1"));
    const start = () => readConfig({ store: "memory", configFile }, {});
    expect(start).toThrow(`config file ${configFile}: the text is not UTF-8`);
  });
});

test.skipIf(!hasIpv6)(
  "a node that listens on an IPv6 address shows this address as a valid URL",
  async () => {
    const config = readConfig({ store: "memory", bindAddress: "::1", port: 0 }, {});
    const server = await openServer(config, { event() {} });
    try {
      expect(server.url).toMatch(/^http:\/\/\[::1\]:\d+\/?$/);
      expect((await fetch(String(server.url))).status).toBe(200);
    } finally {
      await server.stop();
    }
  },
);

const labelled = (labels: string) => {
  const sections = new Map([["tandem", new Map([["labels", labels]])]]);
  return readConfig({ store: "memory", sections }, {}).labels;
};

test("labels of a node are sorted and distinct", () => {
  expect(labelled("site:berlin, disk:ssd,site:berlin")).toEqual(["disk:ssd", "site:berlin"]);
  expect(labelled("")).toEqual([]);
});

test.each([
  ["Berlin", "[tandem] labels = Berlin: expected labels of 1 to 64 characters of a-z, 0-9"],
  ["a b", "[tandem] labels = a b: expected labels of"],
  [[..."abcdefghi"].join(), "[tandem] labels = a,b,c,d,e,f,g,h,i: expected up to 8 labels"],
])("the labels %j are refused", (labels, message) => {
  expect(() => labelled(labels)).toThrow(message);
});
