/** The documentation as a site. The sidebar is `docs/index.md`, so nothing is written twice. */
import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { type DefaultTheme, defineConfig } from "vitepress";

const SITE = fileURLToPath(new URL("..", import.meta.url));
const OPENAPI: { readonly tags: readonly { readonly name: string }[] } = JSON.parse(
  readFileSync(join(SITE, "pages/docs/api/openapi.json"), "utf8"),
);

export default defineConfig({
  srcDir: "pages",
  srcExclude: ["public/**"],
  outDir: join(SITE, "../dist/site"),
  rewrites: { "README.md": "index.md" },
  ignoreDeadLinks: [(link) => existsSync(join(SITE, "pages/public", pathOf(link, "")))],
  title: "Tandem",
  description: "A fault-tolerant replicator for everything that speaks the CouchDB protocol",
  cleanUrls: false,
  lastUpdated: false,
  themeConfig: {
    search: { provider: "local" },
    sidebar: sidebarOf(readFileSync(join(SITE, "pages/docs/index.md"), "utf8")),
    nav: [
      { text: "Five minutes", link: "/docs/five-minutes" },
      {
        text: "Operations of the API",
        items: OPENAPI.tags.map(({ name }) => ({
          text: name,
          link: `/operations/${name.toLowerCase()}`,
        })),
      },
      { text: "Changes", link: "/CHANGELOG" },
    ],
    outline: { level: [2, 3] },
  },
});

/** Path of a link's target from the root; links have at most one `../`. */
function pathOf(link: string, folder: string): string {
  return posix.join("/", folder, link).slice(1);
}

/** The sections of the map with their links. */
function sidebarOf(map: string): DefaultTheme.SidebarItem[] {
  const sections = map.split(/^\*\*(.+)\*\*$/m).slice(1);
  const items: DefaultTheme.SidebarItem[] = [];
  for (let at = 0; at + 1 < sections.length; at += 2) {
    const links = [...(sections[at + 1] as string).matchAll(/\[([^\]]+)\]\(([^)]+\.md)\)/g)];
    items.push({
      text: sections[at] as string,
      collapsed: false,
      items: links.map(([, text = "", link = ""]) => ({
        text: text.replace(/^./, (letter) => letter.toUpperCase()),
        link: `/${pathOf(link, "docs").replace(/\.md$/, "")}`,
      })),
    });
  }
  return items;
}
