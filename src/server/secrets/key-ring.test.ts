import { expect, test } from "vitest";
import { type Random, utf8Decode, utf8Encode } from "../../base/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import { KEY_BYTES, KeyRing, keyIdOf } from "./key-ring.ts";
import { isCurrentText, openText, sealedRequests, sealText } from "./sealed-forms.ts";

const OLD = new Uint8Array(KEY_BYTES).fill(1);
const NEW = new Uint8Array(KEY_BYTES).fill(2);
const { random } = createSystemRuntime();
const JOB = { type: "replication", id: "one" };
const REQUEST = { format: 2, password: "secret" };

function ring(...keys: Uint8Array[]): KeyRing {
  return new KeyRing({ random, readKeys: () => keys });
}

test("sealed text opens only with its key at its location", () => {
  const sealed = ring(OLD).seal(utf8Encode("a secret"), "here");
  expect(utf8Decode(ring(OLD).open(sealed, "here"))).toBe("a secret");
  expect(Buffer.from(sealed).includes("a secret")).toBe(false);
  const damaged = expect.objectContaining({ code: "SECRETS_DAMAGED" });
  expect(() => ring(OLD).open(sealed, "there")).toThrow(damaged);
  expect(() => ring(OLD).open(sealed.subarray(0, 20), "here")).toThrow(damaged);
  for (let index = 5; index < sealed.length; index++) {
    const changed = sealed.with(index, (sealed[index] as number) ^ 1);
    expect(() => ring(OLD).open(changed, "here")).toThrow(damaged);
  }
});

test("each sealing uses a new random nonce", () => {
  const one = ring(OLD);
  expect(one.seal(utf8Encode("x"), "p")).not.toEqual(one.seal(utf8Encode("x"), "p"));
  const fixed: Random = { ...random, bytes: (count) => new Uint8Array(count).fill(9) };
  const again = () => new KeyRing({ random: fixed, readKeys: () => [OLD] });
  expect(again().seal(utf8Encode("x"), "p")).toEqual(again().seal(utf8Encode("x"), "p"));
});

test("sealing uses the newest key unless another key is selected, and opening uses older keys too", () => {
  const sealed = ring(OLD).seal(utf8Encode("x"), "p");
  const both = ring(OLD, NEW);
  expect(both.sealingId).toBe(keyIdOf(NEW));
  expect(utf8Decode(both.open(sealed, "p"))).toBe("x");
  expect(both.isCurrent(sealed)).toBe(false);
  both.sealWith(keyIdOf(OLD));
  expect(both.isCurrent(sealed)).toBe(true);
  expect(() => ring(NEW).open(both.seal(utf8Encode("x"), "p"), "p")).toThrow(
    `This node lacks the key ${keyIdOf(OLD)}`,
  );
});

test("a missing key is loaded if it has been added to the source since startup", () => {
  const keys = [OLD];
  const follower = new KeyRing({ random, readKeys: () => keys });
  const sealed = ring(NEW).seal(utf8Encode("x"), "p");
  const missing = expect.objectContaining({ code: "SECRETS_KEY_MISSING" });
  expect(() => follower.open(sealed, "p")).toThrow(missing);
  keys.push(NEW);
  expect(utf8Decode(follower.open(sealed, "p"))).toBe("x");
});

test("a node seals nothing while the sealing key is missing", () => {
  const one = ring(OLD);
  one.sealWith(keyIdOf(NEW));
  const missing = expect.objectContaining({ code: "SECRETS_KEY_MISSING" });
  expect(() => one.seal(utf8Encode("x"), "p")).toThrow(missing);
});

test("an unsealed text is read unchanged", () => {
  const one = ring(OLD);
  expect(openText(one, "plain", "p")).toBe("plain");
  expect(isCurrentText(one, "plain")).toBe(false);
  const sealed = sealText(one, "plain", "p");
  expect(openText(one, sealed, "p")).toBe("plain");
  expect(isCurrentText(one, sealed)).toBe(true);
  const damaged = expect.objectContaining({ code: "SECRETS_DAMAGED" });
  expect(() => openText(one, "sealed:?", "p")).toThrow(damaged);
});

test("a request is sealed for its job, and resealed if it was sealed with another key or not at all", () => {
  const old = sealedRequests(ring(OLD));
  const sealed = old.encode(JOB, REQUEST);
  expect(JSON.stringify(sealed)).not.toContain("secret");
  expect(old.decode(JOB, sealed)).toEqual(REQUEST);
  expect(old.decode(JOB, REQUEST)).toEqual(REQUEST);
  expect(old.renew(JOB, sealed)).toBeUndefined();
  const both = sealedRequests(ring(OLD, NEW));
  for (const stored of [sealed, REQUEST]) {
    const renewed = both.renew(JOB, stored);
    expect(sealedRequests(ring(NEW)).decode(JOB, renewed ?? {})).toEqual(REQUEST);
  }
});

test("a request that cannot be opened is returned unchanged, and is not sealed again", () => {
  const sealed = sealedRequests(ring(OLD)).encode(JOB, REQUEST);
  const other = sealedRequests(ring(NEW));
  expect(other.decode(JOB, sealed)).toBe(sealed);
  expect(() => other.renew(JOB, sealed)).toThrow("lacks the key");
  const moved = { ...JOB, id: "two" };
  expect(sealedRequests(ring(OLD)).decode(moved, sealed)).toBe(sealed);
});
