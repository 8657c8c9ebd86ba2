/** `GET /_tandem/openapi.json`: the OpenAPI document of the API. */
import { json } from "../http/responses.ts";
import { PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** `routes` returns all routes, this one included. */
export function openApiRoute(
  routes: () => readonly Route[],
  { version }: { readonly version: string },
): Route {
  return defineRoute("GET", "/_tandem/openapi.json", PUBLIC, async () => {
    // Loaded by the first request: no other one needs the schemas.
    const { openApiDocument } = await import("../../contract/index.ts");
    return json(200, openApiDocument(routes(), { version }));
  });
}
