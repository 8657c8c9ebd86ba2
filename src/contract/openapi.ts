/**
 * The OpenAPI 3.1 document of the API, generated from its routes and the operations of the
 * contract.
 */
import type { TSchema } from "@sinclair/typebox";
import * as jobs from "./jobs.ts";
import * as nodes from "./nodes.ts";
import type { Operation } from "./operation.ts";
import { OPERATIONS } from "./operations.ts";
import type { Parameter } from "./queries.ts";
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

const ERROR = {
  description: "The request was rejected or failed",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/**
 * Returns the document, with operations in the order of paths. Omits routes without an operation,
 * which refuse all requests.
 */
export function openApiDocument(
  routes: readonly DescribedRoute[],
  { version }: { readonly version: string },
): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { methods, path, facts } of routes) {
    const key = path.replaceAll("...}", "}");
    for (const method of methods) {
      const operation = OPERATIONS[`${method} ${key}`];
      if (operation === undefined) continue;
      const item = paths[key] ?? {};
      paths[key] = item;
      item[method.toLowerCase()] = operationOf(method, key, facts.access, operation);
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
    tags: [
      { name: "Server", description: "The node and its users" },
      { name: "Databases", description: "Databases, and requests that concern several documents" },
      { name: "Documents", description: "Documents and attachments" },
      { name: "Tandem", description: "Replication jobs; CouchDB has no counterpart" },
    ],
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

function operationOf(method: string, path: string, access: string, operation: Operation): object {
  const { summary, query = {}, body, isBodyOptional = false, answer } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const parameters = [...names.map(pathParameter), ...Object.entries(query).map(queryParameter)];
  const isOpen = access === "anybody" || access === "page";
  return {
    operationId: operationId(method, path),
    summary,
    tags: [tagOf(path)],
    "x-access": access,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: !isBodyOptional, ...jsonOf(body) } }),
    ...(isOpen ? { security: [{}] } : {}),
    responses: {
      "2XX": { description: "Success", ...(answer === undefined ? {} : jsonOf(answer)) },
      "4XX": { $ref: "#/components/responses/Error" },
      "5XX": { $ref: "#/components/responses/Error" },
    },
  };
}

function jsonOf(schema: TSchema): object {
  return { content: { "application/json": { schema: referring(schema) } } };
}

/** The group of a resource, by its path. */
function tagOf(path: string): string {
  if (path.startsWith("/_tandem/")) return "Tandem";
  if (!path.startsWith("/{database}")) return "Server";
  return /\/(\{id\}|(_design|_local)\/\{name\})/.test(path) ? "Documents" : "Databases";
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

function queryParameter([name, parameter]: readonly [name: string, Parameter]): object {
  const described = { name, in: "query", description: parameter.meaning };
  switch (parameter.kind) {
    case "text":
      return { ...described, schema: { type: "string" } };
    case "json":
      return { ...described, content: { "application/json": { schema: {} } } };
    case "flag":
      return { ...described, schema: { type: "boolean" } };
    case "choice":
      return { ...described, schema: { type: "string", enum: parameter.values } };
    case "choices": {
      const items = { type: "string", enum: parameter.values };
      return { ...described, style: "form", explode: false, schema: { type: "array", items } };
    }
    case "integer": {
      const { min: minimum = 0, max: maximum, default: fallback } = parameter;
      const bounds = { minimum, ...(maximum === undefined ? {} : { maximum }) };
      const initial = fallback === undefined ? {} : { default: fallback };
      return { ...described, schema: { type: "integer", ...bounds, ...initial } };
    }
  }
}

/** Operation id, such as `get_tandem_jobs_id`. Unique, because paths are unique. */
function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return [method.toLowerCase(), ...words].join("_");
}
