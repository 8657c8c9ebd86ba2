/** Examples of a page: shell blocks with the response shown below each. */

export interface PageExample {
  readonly script: string;
  /**
   * Kind of the following block: `json`, one value per request with a JSON response, or `text`, the
   * printed output.
   */
  readonly answer: { readonly form: "json" | "text"; readonly text: string } | undefined;
}

/**
 * A block of `json` or `text` is a response if only empty lines separate it from the shell block.
 */
export function pageExamples(page: string): readonly PageExample[] {
  const blocks = page.matchAll(/```sh\n(.*?)```(?:\s*```(json|text)\n(.*?)```)?/gs);
  return [...blocks].map(([, script = "", form, text]) => ({
    script,
    answer:
      form === undefined ? undefined : { form: form as "json" | "text", text: text as string },
  }));
}

/** Parses consecutive JSON values, each on its own lines. */
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
      // The text is incomplete JSON: the value continues on the next lines.
    }
  }
  if (rest.trim() !== "") throw new Error(`No JSON: ${rest}`);
  return values;
}

/** Patterns of strings that vary. Everything else in a response must equal the page. */
const VARYING_TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>"],
  [/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/g, "<time>"],
  [/\b\d+-[0-9a-f]{24}\b/g, "<sequence>"],
  [/\b[0-9a-f]{24}\b/g, "<place of an event>"],
  // Ids of servers, sessions, workers, replications, and generated document ids. Digits after a
  // hyphen belong to a revision, which does not vary.
  [/(?<![-0-9a-f])[0-9a-f]{32}\b/g, "<unique id>"],
  // Ids of processes and keys.
  [/(?<![-0-9a-f])([0-9a-f]{8}|[0-9a-f]{12})\b(?![-:])/g, "<short id>"],
  [/\btandem@[\w.-]+/g, "<node>"],
];

/** Members whose values vary without a pattern. Only their type is compared. */
const VARYING_MEMBERS: ReadonlySet<string> = new Set([
  "pid",
  "instance_start_time",
  "started_on",
  "updated_on",
  "memory_bytes",
  "lease_age_sec",
  // The lease of test nodes is longer, so that it does not expire on a busy machine.
  "lease_sec",
  // Either the first checkpoint of a run or a later one.
  "checkpointed_source_seq",
]);

/** Member that is null until the first measurement, which has no event. */
const MEASURED_LATER = "event_loop_delay_ms";

/** Normalized form that must be equal in the shown and the actual response. */
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
 * Columns of a table are as wide as their values, so runs of spaces count as one. Pages wrap header
 * lines differently.
 */
export function textWithoutVarying(text: string): string {
  const named = VARYING_TEXTS.reduce(
    (rest, [pattern, name]) => rest.replaceAll(pattern, name),
    text,
  );
  return named.replaceAll("\r\n", "\n").replaceAll(/ +/g, " ").replaceAll(/ $/gm, "").trim();
}
