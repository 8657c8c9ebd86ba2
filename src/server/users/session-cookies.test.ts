/** Tests which cookies open a session, and how cookies are protected. */
import { createHmac, hkdfSync } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { AuthenticationSettings } from "../settings/authentication-settings.ts";
import { authenticationSettings } from "../settings/authentication-settings.ts";
import { SessionCookies } from "./session-cookies.ts";
import type { KnownUser } from "./user-directory.ts";

const SECRET = "a secret of this server";
const NOW_SEC = 0x69000000;
const PLAIN = { isSecure: false, headers: new Map<string, string>() };

function open(texts: Readonly<Record<string, string>> = {}, secret = SECRET) {
  let nowSec = NOW_SEC;
  const clock = {
    nowMs: () => nowSec * 1000,
    monotonicMs: () => nowSec * 1000,
    sleep: () => Promise.resolve(),
  };
  const settings: AuthenticationSettings = authenticationSettings({
    get: (section, key) => texts[`${section}/${key}`],
  });
  const cookies = new SessionCookies(settings, clock, secretsOf(settings.secret ?? secret));
  const cookieValue = (header: string): string => /^AuthSession=([^;]*)/.exec(header)?.[1] ?? "";
  return {
    cookies,
    wait: (durationSec: number): void => {
      nowSec += durationSec;
    },
    issue: (user: KnownUser): string => cookieValue(cookies.issue(user, PLAIN)),
    /** Whether a cookie with this value opens a session of the user. */
    opens(value: string, user: KnownUser): boolean {
      const session = cookies.read(`AuthSession=${value}`);
      return session !== undefined && session.name === user.name && cookies.isValid(session, user);
    },
  };
}

function secretsOf(current: string) {
  return { current, accepted: [current] };
}

function user(name: string, salt = "0123456789abcdef"): KnownUser {
  return { name, salt, roles: [], hash: "", matches: () => Promise.resolve(false) };
}

const JAN = user("jan");

/** Returns a cookie in this server's format with the given parts. */
function signed({
  name = "jan",
  sec = NOW_SEC,
  secret = SECRET,
  salt = JAN.salt,
  hash = "sha256",
}) {
  const text = `${name}:${sec.toString(16).toUpperCase()}`;
  const key = new Uint8Array(hkdfSync("sha256", secret, salt, "tandem session cookie", 32));
  const signature = createHmac(hash, key).update(text).digest();
  return Buffer.concat([Buffer.from(`${text}:`), signature]);
}

/** Whether the cookie opens a session. Expects an error 400 for a malformed cookie. */
function comesIn(value: string, who = JAN): boolean {
  try {
    return open().opens(value, who);
  } catch (error) {
    expect(error).toMatchObject({ status: 400, error: "bad_request" });
    return false;
  }
}

describe("a forged cookie", () => {
  test("is derived from a cookie that this server accepts", () => {
    expect(open().issue(JAN)).toBe(signed({}).toString("base64url"));
    expect(comesIn(signed({}).toString("base64url"))).toBe(true);
    expect(comesIn(signed({ hash: "sha1" }).toString("base64url"))).toBe(true);
  });

  test.each([
    ["another secret", signed({ secret: "another" })],
    ["no secret", signed({ secret: "" })],
    ["no salt", signed({ salt: "" })],
    ["another user's salt", signed({ salt: "fedcba9876543210" })],
    ["an unknown hash", signed({ hash: "md5" })],
    ["a longer unknown hash", signed({ hash: "sha512" })],
    ["no signature", Buffer.from(`jan:${NOW_SEC.toString(16)}:`)],
    ["a signature that is too long", Buffer.concat([signed({}), Buffer.from([0])])],
    ["its signature twice", Buffer.concat([signed({}), signed({})])],
    ["an expired time", signed({ sec: NOW_SEC - 600 })],
    ["no time", Buffer.concat([Buffer.from("jan::"), signed({}).subarray(-32)])],
    ["64 KiB after it", Buffer.concat([signed({}), Buffer.alloc(65_536, "a")])],
    ["64 KiB before it", Buffer.concat([Buffer.alloc(65_536, "a"), signed({})])],
  ])("opens no session with %s", (_, bytes) => {
    expect(comesIn(bytes.toString("base64url"))).toBe(false);
  });

  test("opens no session if the name or time of a valid cookie was replaced", () => {
    const bytes = signed({ sec: NOW_SEC - 300 });
    const signature = bytes.subarray(-32);
    const root = Buffer.concat([Buffer.from(`root:${(NOW_SEC - 300).toString(16)}:`), signature]);
    expect(comesIn(root.toString("base64url"), user("root"))).toBe(false);
    const later = Buffer.concat([Buffer.from(`jan:${NOW_SEC.toString(16)}:`), signature]);
    expect(comesIn(later.toString("base64url"))).toBe(false);
    // Moves a letter from the name to the time. The signature also covers the colon between them.
    const shifted = Buffer.concat([Buffer.from("ja:n69000000:"), signed({}).subarray(-32)]);
    expect(comesIn(shifted.toString("base64url"), user("ja"))).toBe(false);
  });

  test("opens no session if any bit is changed or any byte is missing", () => {
    const whole = signed({});
    for (let bit = 0; bit < whole.length * 8; bit++) {
      const changed = Buffer.from(whole);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect([bit, comesIn(changed.toString("base64url"))]).toEqual([bit, false]);
    }
    for (let length = 0; length < whole.length; length++) {
      const value = whole.subarray(0, length).toString("base64url");
      expect([length, value !== "" && comesIn(value)]).toEqual([length, false]);
    }
  });

  test("opens no session if it consists of random bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(comesIn(Buffer.from(bytes).toString("base64url"))).toBe(false);
      }),
    );
  });
});

test.each([
  "AuthSession=",
  'AuthSession=""',
  "a=b; AuthSession=; c=d",
  "a=b",
  "NoAuthSession=x",
  "",
])("the cookies %j contain no session, and are not refused", (header) => {
  expect(open().cookies.read(header)).toBeUndefined();
});

test("a session ends after its lifetime, and when the user's salt or the secret changes", () => {
  const { issue, opens, wait } = open();
  const value = issue(JAN);
  expect(opens(value, user("jan", "new salt"))).toBe(false);
  expect(open({ "chttpd_auth/secret": "another" }).opens(value, JAN)).toBe(false);
  wait(599);
  expect(opens(value, JAN)).toBe(true);
  wait(1);
  expect(opens(value, JAN)).toBe(false);
});

test("a user without a salt has no session", () => {
  const unsalted = user("jan", "");
  expect(comesIn(signed({ salt: "" }).toString("base64url"), unsalted)).toBe(false);
  expect(() => open().issue(unsalted)).toThrow(expect.objectContaining({ status: 403 }));
});

test("a signature made by a proxy or by CouchDB opens no session", () => {
  const text = `jan:${NOW_SEC.toString(16).toUpperCase()}`;
  for (const salt of ["", JAN.salt]) {
    const signature = createHmac("sha256", `${SECRET}${salt}`).update(text).digest();
    const bytes = Buffer.concat([Buffer.from(`${text}:`), signature]);
    expect(comesIn(bytes.toString("base64url"), user("jan", salt))).toBe(false);
  }
});

describe("the attributes of a cookie", () => {
  const attributes = (header: string): string[] => header.split("; ").slice(1);
  const from = (headers: Readonly<Record<string, string>>, isSecure = false) => ({
    isSecure,
    headers: new Map(Object.entries(headers)),
  });

  test.each([
    [{}, false, false],
    [{}, true, true],
    [{ "x-forwarded-proto": "https" }, false, true],
    [{ "x-forwarded-proto": "http" }, false, false],
    // TLS to this server takes precedence over the headers.
    [{ "x-forwarded-proto": "http" }, true, true],
    [{ "x-forwarded-ssl": "on" }, false, true],
    [{ "x-forwarded-ssl": "off" }, false, false],
    [{ "x-other": "https" }, false, false],
  ])(
    "with the headers %j and TLS: %j, the cookie is Secure: %j",
    (headers, isOverTls, isSecure) => {
      const arrival = from(headers, isOverTls);
      const { cookies } = open();
      for (const header of [cookies.issue(JAN, arrival), cookies.cleared(arrival)]) {
        expect(attributes(header).includes("Secure")).toBe(isSecure);
        expect(attributes(header)).toContain("HttpOnly");
      }
    },
  );

  test("the configured names of the proxy headers are used", () => {
    const { cookies } = open({
      "chttpd/x_forwarded_proto": "X-Scheme",
      "chttpd/x_forwarded_ssl": "X-TLS",
    });
    const isSecure = (headers: Readonly<Record<string, string>>): boolean =>
      attributes(cookies.issue(JAN, from(headers))).includes("Secure");
    expect([isSecure({ "x-scheme": "https" }), isSecure({ "x-tls": "on" })]).toEqual([true, true]);
    expect(isSecure({ "x-forwarded-proto": "https", "x-forwarded-ssl": "on" })).toBe(false);
  });

  test.each([
    ["lax", "SameSite=Lax"],
    ["Strict", "SameSite=Strict"],
    ["none", "SameSite=None"],
    ["", undefined],
  ])("with same_site = %s it contains %s", (text, attribute) => {
    const { cookies } = open({ "chttpd_auth/same_site": text });
    const said = attributes(cookies.issue(JAN, PLAIN)).find((one) => one.startsWith("SameSite"));
    expect(said).toBe(attribute);
  });

  test("an invalid same_site is rejected", () => {
    const { cookies } = open({ "chttpd_auth/same_site": "often" });
    expect(() => cookies.issue(JAN, PLAIN)).toThrow(
      "[chttpd_auth] same_site = often: expected none, lax or strict",
    );
  });
});
