/**
 * Runs `tandem` commands of tests one at a time, and keeps the program's modules between commands:
 * loading them takes half a second of processor time. Each command gets its own arguments,
 * environment, folder, outputs and exit code.
 */
const MAIN = new URL("../../dist/program/main.js", import.meta.url);

/** Thrown by `process.exit`, which must not return. */
const EXITED = Symbol("exited");

/** Function that ends the running command with an exit code; undefined between commands. */
let end;
let count = 0;

process.exit = (code = process.exitCode) => {
  end?.(Number(code ?? 0));
  throw EXITED;
};
for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error) => {
    if (error !== EXITED) crash(error);
  });
}
// Each command adds listeners to the outputs.
for (const stream of [process.stdout, process.stderr]) stream.setMaxListeners(0);
process.on("message", async (command) => process.send(await run(command)));
process.once("disconnect", () => process.reallyExit(0));

async function run({ flags, environment, directory }) {
  process.argv = [process.execPath, MAIN.pathname, ...flags];
  process.env = environment;
  process.chdir(directory);
  process.exitCode = undefined;
  const ran = { output: "", errors: "" };
  capture(process.stdout, ran, "output");
  capture(process.stderr, ran, "errors");
  const code = await new Promise((resolve) => {
    end = resolve;
    // The number makes Node.js evaluate the module again. Its imports stay loaded.
    import(`${MAIN.href}?${++count}`).then(
      () => end?.(Number(process.exitCode ?? 0)),
      (error) => error === EXITED || crash(error),
    );
  });
  end = undefined;
  return { code, ...ran };
}

/** Handles an uncaught error as Node.js does: prints it, and ends the command with exit code 1. */
function crash(error) {
  process.stderr.write(`${error?.stack ?? error}\n`);
  end?.(1);
}

/** Appends the stream's text to `ran[name]` while a command is running. */
function capture(stream, ran, name) {
  stream.write = (chunk, ...more) => {
    if (end !== undefined) ran[name] += String(chunk);
    const callback = more.at(-1);
    if (typeof callback === "function") process.nextTick(callback);
    return true;
  };
}
