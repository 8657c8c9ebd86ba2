/** Commands on a documentation page, for the test that runs them. */

/**
 * Returns the arguments of each `tandem` command in the page's shell blocks, by block, without
 * comments.
 */
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

/** Returns the texts of the page's JSON blocks. */
export function pageJson(page: string): readonly string[] {
  return [...page.matchAll(/```json\n(.*?)```/gs)].map(([, block = ""]) => block);
}
