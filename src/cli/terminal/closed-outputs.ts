/** Handles outputs whose reader has exited. */

/**
 * Exit code if the reader of the output has exited. Node.js ignores SIGPIPE, so the signal does not
 * end the process.
 */
const UNREAD = 1;

/**
 * Ends the process silently when the reader of its output has exited (`tandem jobs watch | head
 * -1`). A closed terminal sends a signal instead, which the command handles itself.
 */
export function endWhenUnread(): void {
  for (const output of [process.stdout, process.stderr]) {
    output.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(UNREAD);
      if (error.code !== "EIO") throw error;
    });
  }
}
