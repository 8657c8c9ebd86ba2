/**
 * A shell that runs the commands of the documentation. In this shell, `tandem` and `npx tandem` run
 * the built program.
 */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../../dist/program/main.js", import.meta.url));

export interface PageShell {
  /**
   * Runs the lines of a block one by one. Each line must succeed. Returns the standard output of
   * all lines. An error response counts as a failure, unless `answers` accepts error responses.
   */
  run(block: string, options?: { readonly answers?: boolean }): Promise<string>;
  /** Environment in which child processes find the same programs and the same node as the shell. */
  readonly environment: NodeJS.ProcessEnv;
}

/**
 * Creates the shell. `folder` is its working directory, and `server` is the URL of the node that
 * `tandem` uses.
 */
export function pageShell(folder: string, server: string): PageShell {
  const programs = join(folder, "programs");
  mkdirSync(programs);
  const program = `exec ${process.execPath} ${MAIN} "$@"`;
  const scripts = {
    tandem: program,
    npx: `[ "$1" = tandem ] || exit 9\nshift\n${program}`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(programs, name), 0o755);
  }
  const environment = {
    ...process.env,
    PATH: `${programs}:${process.env.PATH}`,
    TANDEM_SERVER: server,
    NETRC: join(folder, "none"),
  };
  return {
    environment,
    run(block, { answers = false } = {}) {
      const quiet = `curl --silent --show-error${answers ? "" : " --fail"} `;
      const script = block.replaceAll("curl ", quiet);
      const options = { env: environment, cwd: folder };
      return new Promise((resolve, reject) => {
        execFile("bash", ["-euo", "pipefail", "-c", script], options, (error, out, errors) => {
          if (error === null) resolve(out);
          else reject(new Error(`${script}\n${out}${errors}`));
        });
      });
    },
  };
}
