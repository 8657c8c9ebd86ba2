/** `GET /_tandem/openapi.json`: the OpenAPI document of the API. */
import { loadOpenApi } from "../../contract/index.ts";
import { jsonText } from "../http/responses.ts";
import { PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Defines `/_tandem/openapi.json`. `routes` returns all routes, including this one. */
export function openApiRoute(
  routes: () => readonly Route[],
  { version }: { readonly version: string },
): Route {
  // Created on the first request, because other requests do not need the schemas. Cached, because
  // everyone can request it.
  let text: string | undefined;
  return defineRoute("GET", "/_tandem/openapi.json", PUBLIC, async () => {
    const { openApiDocument } = await loadOpenApi();
    text ??= JSON.stringify(openApiDocument(routes(), { version }));
    return jsonText(200, text);
  });
}
