/** Handles closed outputs. */

/** Exit code in place of SIGPIPE, which Node.js ignores: the command was not completed. */
const UNREAD = 1;

/**
 * Ends the process silently when the reader of its output has ended (`tandem jobs watch | head
 * -1`). A closed terminal sends a signal instead, and the command then still has work to do.
 */
export function endWhenUnread(): void {
  for (const output of [process.stdout, process.stderr]) {
    output.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(UNREAD);
      if (error.code !== "EIO") throw error;
    });
  }
}
