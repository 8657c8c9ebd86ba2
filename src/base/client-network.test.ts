import { expect, test } from "vitest";
import { clientNetwork } from "./client-network.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::ffff:c000:0201", "192.0.2.1"],
  ["0:0:0:0:0:FFFF:192.0.2.1", "192.0.2.1"],
  ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["2001:DB8:0:0:ffff:ffff:ffff:ffff", "2001:db8:0:0::/64"],
  ["2001:0db8:0000:0000::2", "2001:db8:0:0::/64"],
  ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["", ""],
])("the network of %s is %s", (address, network) => {
  expect(clientNetwork(address)).toBe(network);
});
