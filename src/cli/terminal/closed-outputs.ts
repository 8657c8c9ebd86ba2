/** What a command does when nobody reads any more what it prints. */

/** As if it had been ended by SIGPIPE, which Node.js does not let end a process: what was asked for was not done to its end. */
const UNREAD = 1;

/**
 * Ends the process without a word when the program that reads its output has ended (`tandem jobs watch | head -1`). A terminal that is
 * closed says so by a signal, and a command that is stopped by it still has work to do.
 */
export function endWhenUnread(): void {
  for (const output of [process.stdout, process.stderr]) {
    output.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(UNREAD);
      if (error.code !== "EIO") throw error;
    });
  }
}
