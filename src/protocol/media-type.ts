/** `Content-Type` and its parameters (RFC 9110, section 8.3.1). */

export interface MediaType {
  /** Type and subtype in lower case, such as `multipart/related`. */
  readonly type: string;
  /** Parameters: names in lower case, values without their quotes. */
  readonly parameters: ReadonlyMap<string, string>;
}

export function parseMediaType(text: string): MediaType {
  const [type = "", ...rest] = splitOutsideQuotes(text);
  const parameters = new Map<string, string>();
  for (const parameter of rest) {
    const equals = parameter.indexOf("=");
    if (equals < 0) continue;
    const name = parameter.slice(0, equals).trim().toLowerCase();
    const value = parameter.slice(equals + 1).trim();
    parameters.set(name, unquote(value));
  }
  return { type: type.trim().toLowerCase(), parameters };
}

/** Whether an `Accept` header names `type`, or a media range that includes it. */
export function accepts(header: string | undefined, type: string): boolean {
  if (header === undefined || header.trim() === "") return true;
  const [major] = type.split("/");
  return header.split(",").some((entry) => {
    const range = (entry.split(";")[0] ?? "").trim().toLowerCase();
    return range === type || range === "*/*" || range === `${major}/*`;
  });
}

/** Whether an `Accept` header names `type` itself. */
export function acceptsExplicitly(header: string | undefined, type: string): boolean {
  return (header ?? "")
    .split(",")
    .some((entry) => (entry.split(";")[0] ?? "").trim().toLowerCase() === type);
}

function unquote(value: string): string {
  if (!value.startsWith('"')) return value;
  return value.slice(1, value.endsWith('"') ? -1 : undefined).replace(/\\(.)/g, "$1");
}

function splitOutsideQuotes(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === "\\" && quoted) at++;
    else if (char === '"') quoted = !quoted;
    else if (char === ";" && !quoted) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
