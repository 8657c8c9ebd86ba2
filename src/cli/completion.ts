/**
 * `tandem completion`: a script for shell completion of commands and options. The script is
 * generated from the command definitions. For option values, the shell completes file names.
 */
import { Argument, type Command } from "commander";
import { quoted } from "./terminal/quoted.ts";

/** A command path (`tandem jobs list`) with the words that can follow. */
interface Completion {
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly Word[];
}

interface Word {
  readonly word: string;
  readonly description: string;
}

const SHELLS = { bash, zsh, fish } as const;

export function addCompletionCommand(program: Command): void {
  program
    .command("completion")
    .description("print a script for shell completion of commands and options")
    .addArgument(new Argument("<shell>", "the shell").choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](completionsOf(program)));
    });
}

function completionsOf(command: Command, above = ""): readonly Completion[] {
  const path = `${above}${command.name()}`;
  const commands = command.commands.map((child) => ({
    word: child.name(),
    description: child.description(),
  }));
  const options = command.options.map(({ long, short, description }) => ({
    word: long ?? short ?? "",
    description,
  }));
  const help = { word: "--help", description: "display help" };
  const own = { path, commands, options: [...options, help] };
  return [own, ...command.commands.flatMap((child) => completionsOf(child, `${path} `))];
}

/**
 * Script for bash. It determines the command from the words before the cursor: the longest matching
 * path, ignoring options.
 */
function bash(completions: readonly Completion[]): string {
  const cases = completions.map(({ path, commands, options }) => {
    const words = [...commands, ...options].map(({ word }) => word);
    return `    ${quoted(path)}) words=${quoted(words.join(" "))} ;;\n`;
  });
  return `_tandem() {
  local current=\${COMP_WORDS[COMP_CWORD]} path=tandem words word
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$path $word" in
${completions
  .slice(1)
  .map(({ path }) => `      ${quoted(path)}) path=${quoted(path)} ;;\n`)
  .join("")}    esac
  done
  case $path in
${cases.join("")}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tandem tandem
`;
}

/** Script for zsh. It runs the script for bash, which zsh can do. */
function zsh(completions: readonly Completion[]): string {
  return `autoload -U +X bashcompinit && bashcompinit\n${bash(completions)}`;
}

function fish(completions: readonly Completion[]): string {
  const lines = completions.flatMap(({ path, commands, options }) => {
    const words = path.split(" ").slice(1);
    const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`);
    const others = commands.map(({ word }) => word).join(" ");
    const condition = [
      ...(seen.length === 0 ? ["true"] : seen),
      ...(others === "" ? [] : [`not __fish_seen_subcommand_from ${others}`]),
    ].join("; and ");
    const line = (argument: string, description: string): string =>
      `complete -c tandem -n ${quoted(condition)} ${argument} -d ${quoted(description)}\n`;
    return [
      ...commands.map(({ word, description }) => line(`-f -a ${word}`, description)),
      ...options.map(({ word, description }) => line(`-l ${word.slice(2)}`, description)),
    ];
  });
  return lines.join("");
}
