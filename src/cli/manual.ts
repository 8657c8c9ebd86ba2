/** `tandem manual`: the manual page, generated from the command definitions. */
import type { Command } from "commander";
import { VERSION } from "../server/index.ts";

export function addManualCommand(program: Command): void {
  program
    .command("manual")
    .description("print the manual page, to be read with man -l -")
    .action(() => {
      process.stdout.write(manualOf(program));
    });
}

/** Returns the manual page in the language of `man` (roff). */
function manualOf(program: Command): string {
  const name = program.name();
  return [
    `.TH ${name.toUpperCase()} 1 "" "couch-tandem ${VERSION}" "User Commands"`,
    ".SH NAME",
    `${name} \\- ${escaped(program.description())}`,
    ".SH SYNOPSIS",
    `.B ${name}`,
    escaped(
      program
        .createHelp()
        .commandUsage(program)
        .slice(name.length + 1),
    ),
    ".SH OPTIONS",
    ...optionsOf(program),
    ...item("-h, --help", "display help for tandem or a command"),
    ".SH COMMANDS",
    ...program.commands.flatMap((command) => sectionsOf(command)),
    "",
  ].join("\n");
}

/** A section for the command, or one for each of its subcommands. */
function sectionsOf(command: Command): readonly string[] {
  const help = command.createHelp();
  if (command.commands.length > 0) return command.commands.flatMap(sectionsOf);
  return [
    `.SS ${escaped(help.commandUsage(command))}`,
    escaped(help.commandDescription(command)),
    ...help
      .visibleArguments(command)
      .flatMap((argument) => item(help.argumentTerm(argument), help.argumentDescription(argument))),
    ...optionsOf(command),
  ];
}

function optionsOf(command: Command): readonly string[] {
  const help = command.createHelp();
  return help
    .visibleOptions(command)
    .filter(({ long }) => long !== "--help")
    .flatMap((option) => item(help.optionTerm(option), help.optionDescription(option)));
}

function item(term: string, description: string): readonly string[] {
  return [".TP", `.B ${escaped(term)}`, escaped(description)];
}

/** Escapes characters that roff would interpret. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^[.']/, "\\&$&");
}
