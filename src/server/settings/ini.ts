/**
 * CouchDB's INI files. They contain sections, pairs such as `key = value`, comments that begin with
 * `;` at the start of a line or after white space, and continuation lines that begin with white
 * space. No library parses them this way: section names contain dots, values contain semicolons,
 * and keys contain equals signs.
 */

export type IniSections = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** A parsed line, with its section and key. */
type IniLine =
  | { readonly kind: "nothing" | "malformed" }
  | { readonly kind: "section"; readonly section: string }
  /** A pair, or the continuation of its value. */
  | {
      readonly kind: "pair" | "continuation";
      readonly section: string;
      readonly key: string;
      readonly value: string;
    };

function parseLines(lines: readonly string[]): readonly IniLine[] {
  let section: string | undefined;
  let key: string | undefined;
  return lines.map((line): IniLine => {
    const content = line.replace(/(^|\s);.*$/, "").trimEnd();
    if (content.trim() === "") return { kind: "nothing" };
    const header = sectionOf(content);
    if (header !== undefined) {
      section = header;
      key = undefined;
      return { kind: "section", section };
    }
    if (section !== undefined && key !== undefined && /^\s/.test(content)) {
      return { kind: "continuation", section, key, value: content.trim() };
    }
    const pair = pairOf(content);
    if (section === undefined || pair === undefined) return { kind: "malformed" };
    key = pair.key;
    return { kind: "pair", section, ...pair };
  });
}

/**
 * Parses a file. The last of duplicate keys wins. Throws an Error for a line that is neither
 * section, pair nor comment. The message contains the number of the line but not its content, which
 * may be a password.
 */
export function parseIni(text: string): IniSections {
  const sections = new Map<string, Map<string, string>>();
  for (const [index, line] of parseLines(linesOf(text)).entries()) {
    if (line.kind === "malformed") {
      throw new Error(`line ${index + 1}: expected [section] or key = value`);
    }
    if (!("section" in line)) continue;
    const pairs = sections.get(line.section) ?? new Map<string, string>();
    sections.set(line.section, pairs);
    if (line.kind === "pair") pairs.set(line.key, line.value);
    if (line.kind === "continuation") {
      pairs.set(line.key, `${pairs.get(line.key)} ${line.value}`);
    }
  }
  return sections;
}

/**
 * Returns the text with one pair set or removed. Duplicates of the pair are removed. Everything
 * else, including comments, is unchanged (`config_writer`).
 */
export function withIniValue(
  text: string,
  { section, key }: { readonly section: string; readonly key: string },
  value: string | undefined,
): string {
  const lines = linesOf(text.replace(/\s+$/, ""));
  const parsed = parseLines(lines);
  const written = value === undefined ? [] : [`${key} = ${value}`];
  const isOwn = (line: IniLine | undefined): boolean =>
    (line?.kind === "pair" || line?.kind === "continuation") &&
    line.section === section &&
    line.key === key;
  const last = parsed.findLastIndex((line) => line.kind === "pair" && isOwn(line));
  if (last >= 0) {
    const kept = lines.flatMap((line, index) => {
      if (index === last) return written;
      return isOwn(parsed[index]) ? [] : [line];
    });
    return `${kept.join("\n")}\n`;
  }
  if (value === undefined) return text;
  const header = parsed.findIndex((line) => line.kind === "section" && line.section === section);
  if (header < 0) {
    const before = lines.length === 1 && lines[0] === "" ? [] : [...lines, ""];
    return `${[...before, `[${section}]`, ...written].join("\n")}\n`;
  }
  const next = parsed.findIndex((line, index) => index > header && line.kind === "section");
  let end = next < 0 ? lines.length : next;
  while (lines[end - 1]?.trim() === "") end--;
  return `${lines.toSpliced(end, 0, ...written).join("\n")}\n`;
}

function linesOf(text: string): string[] {
  return text.split(/\r?\n/);
}

function sectionOf(line: string): string | undefined {
  return /^\[([^\]]+)\]$/.exec(line.replace(/\s;.*$/, "").trim())?.[1];
}

/**
 * Splits a line at the first ` = `, because a key may contain an equals sign. If the line contains
 * no ` = `, splits it at the first `=`.
 */
function pairOf(line: string): { readonly key: string; readonly value: string } | undefined {
  const spaced = line.indexOf(" = ");
  const equals = spaced > 0 ? spaced + 1 : line.indexOf("=");
  const key = line.slice(0, Math.max(equals, 0)).trim();
  return key === "" ? undefined : { key, value: line.slice(equals + 1).trim() };
}
