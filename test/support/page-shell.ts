/** A shell for the commands of the documentation: `tandem` and `npx tandem` in it are the built program. */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));

export interface PageShell {
  /**
   * Runs the lines of a block one by one, so that each has to succeed: what they wrote to standard output. An answer that says that a
   * request failed is a failure, unless `answers` has them taken as they are.
   */
  run(block: string, options?: { readonly answers?: boolean }): Promise<string>;
  /** Variables with which a process has the same programs, and asks the same node. */
  readonly environment: NodeJS.ProcessEnv;
}

/** `folder` is where the commands run; `server` is the address of the node that `tandem` asks. */
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
