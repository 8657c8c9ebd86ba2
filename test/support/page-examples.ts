/** The examples of a page: blocks for a shell, each with the answer that the page shows below it. */

export interface PageExample {
  readonly script: string;
  /** What the block behind it shows: `json`, one value for each request that answers JSON, or `text` as it is printed. */
  readonly answer: { readonly form: "json" | "text"; readonly text: string } | undefined;
}

/** A block of `json` or `text` is an answer where nothing but empty lines is between it and the block for a shell. */
export function pageExamples(page: string): readonly PageExample[] {
  const blocks = page.matchAll(/```sh\n(.*?)```(?:\s*```(json|text)\n(.*?)```)?/gs);
  return [...blocks].map(([, script = "", form, text]) => ({
    script,
    answer:
      form === undefined ? undefined : { form: form as "json" | "text", text: text as string },
  }));
}

/** The JSON values of a text that has one after the other, each on lines of its own. */
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
      // Its next lines belong to it.
    }
  }
  if (rest.trim() !== "") throw new Error(`No JSON: ${rest}`);
  return values;
}

/** Texts that are others each time, by their form. All else that an answer says has to be what the page shows. */
const VARYING_TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>"],
  [/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/g, "<time>"],
  [/\b\d+-[0-9a-f]{24}\b/g, "<sequence>"],
  [/\b[0-9a-f]{24}\b/g, "<place of an event>"],
  // Of servers, sessions, workers, replications, and documents without an id. Behind a hyphen it is a revision, which does not vary.
  [/(?<![-0-9a-f])[0-9a-f]{32}\b/g, "<unique id>"],
  // Of processes and of keys.
  [/(?<![-0-9a-f])([0-9a-f]{8}|[0-9a-f]{12})\b(?![-:])/g, "<short id>"],
  [/\btandem@[\w.-]+/g, "<node>"],
];

/** Members whose values are others each time, and have no form of their own. Their type is compared. */
const VARYING_MEMBERS: ReadonlySet<string> = new Set([
  "pid",
  "instance_start_time",
  "started_on",
  "updated_on",
  "memory_bytes",
  "lease_age_sec",
  // That of the tests' nodes is longer, so that none lapses on a busy machine.
  "lease_sec",
  // The first of each run, or a later one.
  "checkpointed_source_seq",
]);

/** Null until it has been measured for the first time, of which nothing tells. */
const MEASURED_LATER = "event_loop_delay_ms";

/** What has to be equal in the answer shown and in the answer given. */
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

/** Columns of a table are as wide as their values, so spaces count as one. Pages end the lines of a header as their own. */
export function textWithoutVarying(text: string): string {
  const named = VARYING_TEXTS.reduce(
    (rest, [pattern, name]) => rest.replaceAll(pattern, name),
    text,
  );
  return named.replaceAll("\r\n", "\n").replaceAll(/ +/g, " ").replaceAll(/ $/gm, "").trim();
}
