/** The commands of a page of the documentation, for a test that runs them. */

/** The words behind `tandem` of each command in the page's blocks for a shell, block by block; comments are left out. */
export function pageCommands(page: string): readonly (readonly (readonly string[])[])[] {
  return [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, block = ""]) =>
    block
      .trim()
      .split("\n")
      .map((line) => {
        const words = line.replace(/ +#.*/, "").match(/'[^']*'|\S+/g) ?? [];
        return words.map((word) => word.replaceAll("'", "")).slice(1);
      }),
  );
}

/** The text of each of the page's blocks of JSON. */
export function pageJson(page: string): readonly string[] {
  return [...page.matchAll(/```json\n(.*?)```/gs)].map(([, block = ""]) => block);
}
