/**
 * CouchDB's INI files: sections, `key = value`, comments from `;` at the start of a line or after white space, continuation
 * lines that begin with white space. No library reads them alike: section names hold dots, values hold semicolons.
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
    const header = /^\[([^\]]+)\]$/.exec(content.trim());
    if (header !== null) {
      const name = header[1] as string;
      section = sections.get(name) ?? new Map();
      sections.set(name, section);
      lastKey = undefined;
      continue;
    }
    if (/^\s/.test(content) && section !== undefined && lastKey !== undefined) {
      section.set(lastKey, `${section.get(lastKey)} ${content.trim()}`);
      continue;
    }
    const equals = content.indexOf("=");
    if (equals < 0 || section === undefined) {
      throw new Error(
        `line ${index + 1}: expected [section] or key = value, found ${content.trim()}`,
      );
    }
    lastKey = content.slice(0, equals).trim();
    section.set(lastKey, content.slice(equals + 1).trim());
  }
  return sections;
}
