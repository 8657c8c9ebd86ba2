import { expect, test } from "vitest";
import type { Handler } from "./call.ts";
import { DATABASE, DOCUMENT, MEMBER, PUBLIC } from "./route-facts.ts";
import { defineRoute, Router } from "./router.ts";

const handle: Handler = () => Promise.reject(new Error("Nobody calls it"));

const router = new Router([
  defineRoute("GET", "/", PUBLIC, handle),
  defineRoute("GET", "/_up", PUBLIC, handle),
  defineRoute(["GET", "PUT"], "/{database}", DATABASE, handle),
  defineRoute("POST", "/{database}/_find", MEMBER, handle),
  defineRoute("GET", "/{database}/{id...}", DOCUMENT, handle),
]);

function pathOf(method: string, segments: readonly string[]): string | undefined {
  const match = router.match(method, segments);
  return match.kind === "found" ? match.route.path : undefined;
}

test("a path matches routes of its length, and shorter ones that end in {name...}", () => {
  expect(pathOf("GET", [])).toBe("/");
  expect(pathOf("GET", ["_up"])).toBe("/_up");
  expect(pathOf("PUT", ["a"])).toBe("/{database}");
  expect(pathOf("POST", ["a", "_find"])).toBe("/{database}/_find");
  expect(pathOf("GET", ["a", "doc"])).toBe("/{database}/{id...}");
});

test.each([2, 3, 4, 5, 50])(
  "a route that ends in {name...} matches a path of %d segments",
  (length) => {
    const segments = Array.from({ length }, (_, index) => `s${index}`);
    const match = router.match("GET", segments);
    expect(match.kind === "found" && Object.fromEntries(match.parameters)).toEqual({
      database: "s0",
      id: segments.slice(1).join("/"),
    });
  },
);

test("a fixed segment takes precedence over a placeholder, even if the method is not allowed", () => {
  expect(router.match("GET", ["a", "_find"])).toEqual({
    kind: "wrong-method",
    allowed: ["POST"],
    facts: MEMBER,
  });
  expect(router.match("GET", ["_other"])).toEqual({ kind: "unknown" });
  expect(router.match("GET", ["_other", "a", "b"])).toEqual({ kind: "unknown" });
});
