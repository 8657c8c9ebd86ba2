import { expect, test } from "vitest";
import { listenFailure } from "./listen.ts";

test.each([
  ["EACCES", "CONFIG_INVALID", "port 80 of ::1: this user is not permitted to listen on it"],
  ["EADDRINUSE", "SERVER_PORT_TAKEN", "another port with [ssl] port"],
  [
    "EADDRNOTAVAIL",
    "SERVER_ADDRESS_MISSING",
    "bind address ::1: no network interface of this machine has this address",
  ],
  ["EAI_AGAIN", "SERVER_NAME_UNRESOLVED", "bind address ::1: the name cannot be resolved"],
  ["ENOTFOUND", "CONFIG_INVALID", "bind address ::1: no host has this name"],
])(
  "%s is reported as %s; only a permanent failure is reported as a wrong setting",
  (code, kind, words) => {
    const place = { port: 80, bindAddress: "::1", otherPort: "[ssl] port" };
    const failure = listenFailure(Object.assign(new Error(code), { code }), place);
    expect(failure).toMatchObject({ code: kind, message: expect.stringContaining(words) });
  },
);

test("an unknown error is returned unchanged", () => {
  const error = Object.assign(new Error("of the system"), { code: "EMFILE" });
  expect(listenFailure(error, { port: 0, bindAddress: "::1", otherPort: "" })).toBe(error);
});
