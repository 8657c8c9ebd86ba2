/**
 * Returns the port of a listening server.
 *
 * @param {{ address(): import("node:net").AddressInfo | string | null }} server
 * @returns {number}
 */
export function portOf(server) {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port");
  return address.port;
}
