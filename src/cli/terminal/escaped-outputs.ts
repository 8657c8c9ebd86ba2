/**
 * Escapes all text written to the terminal, because names, errors and responses come from other
 * servers.
 */
import { escapeControls } from "../../base/index.ts";

type Output = Pick<NodeJS.WriteStream, "write">;

/** Escapes control characters in text written to these outputs. Bytes are written unchanged. */
export function escapeOutputs(outputs: readonly Output[] = [process.stdout, process.stderr]): void {
  for (const output of outputs) {
    const write = output.write.bind(output) as (...args: readonly unknown[]) => boolean;
    output.write = (chunk: unknown, ...more: readonly unknown[]): boolean =>
      write(typeof chunk === "string" ? escapeControls(chunk) : chunk, ...more);
  }
}
