/**
 * Protection against DNS rebinding. An attacker can make the name `evil.example` resolve to this
 * machine, so that pages from that name can send requests to this server. Such a request is
 * rejected because its `Host` header is still `evil.example`.
 */
import { BlockList } from "node:net";
import type { ApiRequest } from "../../api/index.ts";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");
LOOPBACK.addSubnet("::ffff:127.0.0.0", 104, "ipv6");

/**
 * Whether the client used a loopback address or `localhost` as the host. A host forwarded by a
 * proxy must be one of these, too. A request without a host is accepted: only HTTP/1.0 clients,
 * which are not browsers, omit it.
 */
export function asksLoopbackHost({ headers }: Pick<ApiRequest, "headers">): boolean {
  const hosts = [headers.get("host"), headers.get("x-forwarded-host")].flatMap(
    (value) => value?.split(",") ?? [],
  );
  return hosts.every((host) => isLoopbackHost(host.trim()));
}

/** Whether `host` is a loopback address, `localhost` or a name below it, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  if (!/^(\[[^\]]*\]|[\w.-]+)(:\d+)?$/.test(host) || !URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  if (hostname.startsWith("[")) return LOOPBACK.check(hostname.slice(1, -1), "ipv6");
  return LOOPBACK.check(hostname, "ipv4") || /^(.+\.)?localhost\.?$/.test(hostname);
}
