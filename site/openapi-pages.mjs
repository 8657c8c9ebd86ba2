/**
 * Markdown for the operations of an OpenAPI 3.1 document: a page for each tag. Covers the parts of
 * OpenAPI that `docs/api/openapi.json` uses.
 */

/** Levels of members below a schema that are listed; deeper ones show their type only. */
const DEPTH_MAX = 2;

export function operationPages({ tags, paths, components }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  return tags.map(({ name, description }) => {
    const sections = operations
      .filter(({ operation }) => operation.tags.includes(name))
      .map(({ path, method, operation }) => {
        return operationText(`${method.toUpperCase()} ${path}`, operation, components.schemas);
      });
    const content = [`# Operations: ${name}`, `${description}.`, ...sections].join("\n\n");
    return { name: name.toLowerCase(), content };
  });
}

function operationText(
  title,
  { summary, description, parameters = [], requestBody, responses, "x-access": access },
  schemas,
) {
  const rows = parameters.map((parameter) => {
    const name = `${code(parameter.name)}${parameter.required === true ? " (required)" : ""}`;
    return [
      name,
      parameter.in,
      typeOf(parameter.schema ?? { type: "JSON" }),
      escaped(parameter.description ?? ""),
    ];
  });
  return [
    `## ${code(title)}`,
    `${escaped(summary)}. ${escaped(description ?? "")}`,
    `Access: ${escaped(access.replaceAll("-", " "))}.`,
    table(["Parameter", "In", "Type", "Meaning"], rows),
    bodyText("Request body", requestBody, schemas),
    bodyText("Response", responses["2XX"], schemas),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function bodyText(title, body, schemas) {
  const types = Object.entries(body?.content ?? {});
  return types
    .map(([type, { schema = {} }]) => {
      const lead = `**${title}** (${code(type)}): ${typeOf(schema)}`;
      const rows = members(schema, schemas, "", DEPTH_MAX);
      return [lead, table(["Member", "Type", "Meaning"], rows)].join("\n\n");
    })
    .join("\n\n");
}

function members(given, schemas, prefix, depth) {
  if (depth === 0) return [];
  const schema = resolved(given, schemas);
  if (schema.items !== undefined) return members(schema.items, schemas, `${prefix}[].`, depth);
  const choices = (schema.anyOf ?? []).flatMap((choice) => members(choice, schemas, prefix, depth));
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const isOptional = schema.required?.includes(name) !== true;
    const full = `${prefix}${name}`;
    const meaning = escaped(member.description ?? "");
    return [
      [`${code(full)}${isOptional ? " (optional)" : ""}`, typeOf(member), meaning],
      ...members(member, schemas, `${full}.`, depth - 1),
    ];
  });
  return [...choices, ...own];
}

function resolved(schema, schemas) {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : (schemas[name] ?? {});
}

function typeOf({ $ref, type, const: only, enum: values, anyOf, items }) {
  if ($ref !== undefined) return $ref.split("/").at(-1).replaceAll("-", " ");
  if (only !== undefined) return code(JSON.stringify(only));
  if (values !== undefined) return values.map((value) => code(JSON.stringify(value))).join(", ");
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ");
  if (items !== undefined) return `array of ${typeOf(items)}`;
  return type === undefined ? "any" : [type].flat().join(" or ");
}

function table(heading, rows) {
  if (rows.length === 0) return "";
  const lines = [heading, heading.map(() => "---"), ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Text in a Vue template and in a table cell. */
function escaped(text) {
  return text.replace(/[<>{}|\\`*_[\]]/g, (found) => `&#${found.codePointAt(0)};`);
}

function code(text) {
  const entities = text.replace(/[<>&{}|]/g, (found) => `&#${found.codePointAt(0)};`);
  return `<code v-pre>${entities}</code>`;
}
