/** The only way of text to the terminal: names, errors and whole answers come from others. */
import { escapeControls } from "../../base/index.ts";

type Output = Pick<NodeJS.WriteStream, "write">;

/** From now on, text written to these outputs is without control characters. Bytes are written as they are. */
export function escapeOutputs(outputs: readonly Output[] = [process.stdout, process.stderr]): void {
  for (const output of outputs) {
    const write = output.write.bind(output) as (...args: readonly unknown[]) => boolean;
    output.write = (chunk: unknown, ...more: readonly unknown[]): boolean =>
      write(typeof chunk === "string" ? escapeControls(chunk) : chunk, ...more);
  }
}
