/** Examples on a page: shell blocks, each with the response shown below it. */

export interface PageExample {
  readonly script: string;
  /**
   * Form of the response in the block that follows. `json` is one value for each request with a
   * JSON response, and `text` is the printed output.
   */
  readonly answer: { readonly form: "json" | "text"; readonly text: string } | undefined;
}

/**
 * Returns the examples of a page. A block of `json` or `text` is a response if only empty lines
 * separate it from the shell block.
 */
export function pageExamples(page: string): readonly PageExample[] {
  const blocks = page.matchAll(/```sh\n(.*?)```(?:\s*```(json|text)\n(.*?)```)?/gs);
  return [...blocks].map(([, script = "", form, text]) => ({
    script,
    answer:
      form === undefined ? undefined : { form: form as "json" | "text", text: text as string },
  }));
}

/** Parses consecutive JSON values. Each value is on separate lines. */
export function jsonValues(text: string): readonly unknown[] {
  const values: unknown[] = [];
  let rest = "";
  for (const line of text.split("\n")) {
    rest += `${line}\n`;
    if (rest.trim() === "") continue;
    try {
      values.push(JSON.parse(rest));
      rest = "";
    } catch {
      // The text is incomplete JSON, so the value continues on the next lines.
    }
  }
  if (rest.trim() !== "") throw new Error(`No JSON: ${rest}`);
  return values;
}

/**
 * Patterns of strings that vary between runs. Everything else in a response must be the same as on
 * the page.
 */
const VARYING_TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>"],
  [/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/g, "<time>"],
  [/\b\d+-[0-9a-f]{24}\b/g, "<sequence>"],
  [/\b[0-9a-f]{24}\b/g, "<place of an event>"],
  // Ids of servers, sessions, workers, replications, and generated document ids. Digits after a
  // hyphen belong to a revision. Revisions do not vary.
  [/(?<![-0-9a-f])[0-9a-f]{32}\b/g, "<unique id>"],
  // Ids of processes and of keys.
  [/(?<![-0-9a-f])([0-9a-f]{8}|[0-9a-f]{12})\b(?![-:])/g, "<short id>"],
  [/\btandem@[\w.-]+/g, "<node>"],
];

/**
 * Members whose values vary without matching a pattern. Only the type of these values is compared.
 */
const VARYING_MEMBERS: ReadonlySet<string> = new Set([
  "pid",
  "instance_start_time",
  "started_on",
  "updated_on",
  "memory_bytes",
  "lease_age_sec",
  // Test nodes have a longer lease, so that it does not expire on a busy machine.
  "lease_sec",
  // Sequence of the run's first checkpoint or of a later one, depending on the time of the request.
  "checkpointed_source_seq",
]);

/**
 * This member is null until the first measurement. No event announces that measurement, so a test
 * cannot wait for it.
 */
const MEASURED_LATER = "event_loop_delay_ms";

/**
 * Replaces varying values. The results must be equal for the response on the page and the actual
 * response.
 */
export function withoutVarying(value: unknown, member = ""): unknown {
  if (member === MEASURED_LATER) return "<number or null>";
  if (VARYING_MEMBERS.has(member)) return `<${typeof value}>`;
  if (typeof value === "string") return textWithoutVarying(value);
  if (Array.isArray(value)) return value.map((item) => withoutVarying(item));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      textWithoutVarying(name),
      withoutVarying(item, name),
    ]),
  );
}

/**
 * Replaces strings that vary by placeholders. Several spaces are replaced by one, because columns
 * of a table are as wide as their values. Header lines end with CRLF in responses, and with LF on
 * pages.
 */
export function textWithoutVarying(text: string): string {
  const named = VARYING_TEXTS.reduce(
    (rest, [pattern, name]) => rest.replaceAll(pattern, name),
    text,
  );
  return named.replaceAll("\r\n", "\n").replaceAll(/ +/g, " ").replaceAll(/ $/gm, "").trim();
}
