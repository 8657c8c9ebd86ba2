/**
 * The OpenAPI 3.1 document of the API, generated from its routes and the operations of the
 * contract.
 */
import * as jobs from "./jobs.ts";
import * as nodes from "./nodes.ts";
import { OPERATIONS } from "./operations.ts";
import * as rules from "./rules.ts";
import { exactly, text } from "./schema.ts";
import * as secrets from "./secrets.ts";

/** Properties of a route that are included in the OpenAPI document. */
export interface DescribedRoute {
  readonly methods: readonly string[];
  /** Path pattern: `{name}` stands for one segment, `{name...}` for the rest of the path. */
  readonly path: string;
  readonly facts: { readonly access: string };
}

const ErrorAnswer = exactly({ error: text, reason: text });

/** Named schemas, which other schemas reference. */
const NAMES = new Map<unknown, string>(
  Object.entries({ ...jobs, ...nodes, ...rules, ...secrets })
    .filter(([name, value]) => /^[A-Z][a-z]/.test(name) && !Array.isArray(value))
    .map(([name, schema]) => [schema, name]),
);

/** Methods defined by OpenAPI, which lacks COPY. */
const METHODS = ["GET", "PUT", "POST", "DELETE"];

const ERROR = {
  description: "The request was rejected or failed",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/** Returns the document. Its operations are in the order of paths. */
export function openApiDocument(
  routes: readonly DescribedRoute[],
  { version }: { readonly version: string },
): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { methods, path, facts } of routes) {
    const key = path.replaceAll("...}", "}");
    for (const method of methods) {
      if (!METHODS.includes(method)) continue;
      const item = paths[key] ?? {};
      paths[key] = item;
      item[method.toLowerCase()] = operationOf(method, path, facts.access);
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Tandem",
      version,
      description:
        "A replicator for CouchDB, with CouchDB's API and additional resources below /_tandem/.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ basic: [] }, { cookie: [] }, { bearer: [] }],
    paths: Object.fromEntries(
      Object.entries(paths).sort(([left], [right]) => (left < right ? -1 : 1)),
    ),
    components: {
      responses: { Error: ERROR },
      securitySchemes: {
        basic: { type: "http", scheme: "basic" },
        bearer: { type: "http", scheme: "bearer" },
        cookie: { type: "apiKey", in: "cookie", name: "AuthSession" },
      },
      schemas: {
        Error: ErrorAnswer,
        ...Object.fromEntries([...NAMES].map(([schema, name]) => [name, membersOf(schema)])),
      },
    },
  };
}

function operationOf(method: string, path: string, access: string): object {
  const { summary, answer } = OPERATIONS[`${method} ${path}`] ?? {
    summary: `${method} ${path} of CouchDB`,
    answer: undefined,
  };
  const names = [...path.matchAll(/\{(\w+)(?:\.\.\.)?\}/g)].map(([, name]) => name as string);
  const content = answer && { content: { "application/json": { schema: referring(answer) } } };
  return {
    operationId: operationId(method, path),
    summary,
    "x-access": access,
    ...(names.length === 0 ? {} : { parameters: names.map(pathParameter) }),
    ...(access === "anybody" || access === "page" ? { security: [{}] } : {}),
    responses: {
      "2XX": { description: "Success", ...content },
      default: { $ref: "#/components/responses/Error" },
    },
  };
}

/** Returns the schema, or a reference to it if it has a name. */
function referring(schema: unknown): unknown {
  const name = NAMES.get(schema);
  return name === undefined ? membersOf(schema) : { $ref: `#/components/schemas/${name}` };
}

function membersOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referring);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, referring(member)]),
  );
}

function pathParameter(name: string): object {
  return { name, in: "path", required: true, schema: { type: "string" } };
}

/** Operation id, such as `get_tandem_jobs_id`. Unique, because paths are unique. */
function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return [method.toLowerCase(), ...words].join("_");
}
