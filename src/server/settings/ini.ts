/**
 * CouchDB's INI files: sections, `key = value`, comments from `;` at the start of a line or after white space,
 * continuation lines that begin with white space. No library reads them in that way: section names have dots, values
 * have semicolons, keys have equals signs.
 */

export type IniSections = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Throws an Error that names the line when one is neither section, nor pair, nor comment. */
export function parseIni(text: string): IniSections {
  const sections = new Map<string, Map<string, string>>();
  let section: Map<string, string> | undefined;
  let lastKey: string | undefined;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const content = line.replace(/(^|\s);.*$/, "").trimEnd();
    if (content.trim() === "") continue;
    const header = sectionOf(content);
    if (header !== undefined) {
      section = sections.get(header) ?? new Map();
      sections.set(header, section);
      lastKey = undefined;
      continue;
    }
    if (/^\s/.test(content) && section !== undefined && lastKey !== undefined) {
      section.set(lastKey, `${section.get(lastKey)} ${content.trim()}`);
      continue;
    }
    const pair = pairOf(content);
    if (pair === undefined || section === undefined) {
      throw new Error(
        `line ${index + 1}: expected [section] or key = value, found ${content.trim()}`,
      );
    }
    lastKey = pair.key;
    section.set(pair.key, pair.value);
  }
  return sections;
}

/** The text with one pair set, or taken out; all else, comments too, stays as it is (`config_writer`). */
export function withIniValue(
  text: string,
  { section, key }: { readonly section: string; readonly key: string },
  value: string | undefined,
): string {
  const lines = text.replace(/\s+$/, "").split(/\r?\n/);
  const written = value === undefined ? [] : [`${key} = ${value}`];
  const header = lines.findIndex((line) => sectionOf(line) === section);
  if (header < 0) {
    if (value === undefined) return text;
    const before = lines.length === 1 && lines[0] === "" ? [] : [...lines, ""];
    return `${[...before, `[${section}]`, ...written].join("\n")}\n`;
  }
  const next = lines.findIndex((line, index) => index > header && sectionOf(line) !== undefined);
  const end = next < 0 ? lines.length : next;
  const own = lines.slice(header + 1, end);
  const at = own.findIndex((line) => !/^\s*;/.test(line) && pairOf(line)?.key === key);
  if (at >= 0) {
    let length = 1;
    while (/^\s+[^\s;]/.test(own[at + length] ?? "")) length++;
    own.splice(at, length, ...written);
  } else {
    let last = own.length;
    while (last > 0 && own[last - 1]?.trim() === "") last--;
    own.splice(last, 0, ...written);
  }
  return `${[...lines.slice(0, header + 1), ...own, ...lines.slice(end)].join("\n")}\n`;
}

function sectionOf(line: string): string | undefined {
  return /^\[([^\]]+)\]$/.exec(line.replace(/\s;.*$/, "").trim())?.[1];
}

/** Cut at the first ` = `, so that a key may hold an equals sign, or else at the first `=`. */
function pairOf(line: string): { readonly key: string; readonly value: string } | undefined {
  const spaced = line.indexOf(" = ");
  const equals = spaced > 0 ? spaced + 1 : line.indexOf("=");
  const key = line.slice(0, Math.max(equals, 0)).trim();
  return key === "" ? undefined : { key, value: line.slice(equals + 1).trim() };
}
