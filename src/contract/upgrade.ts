/** The format of the store, and the nodes that determine it (`docs/upgrading.md`). */
import { count, described, exactly, flag, listOf, nullable, type Shape, text } from "./schema.ts";

export const FormatRange = exactly({ min: count, max: count });

export const UpgradeStatus = exactly({
  version: described(text, "version of the program that answers"),
  formats: described(FormatRange, "formats that this program reads and writes"),
  format: nullable(count, { description: "format of the store; null for an empty store" }),
  can_enable: nullable(count, {
    description: "format that `_enable` would enable; null if the nodes support no higher one",
  }),
  known_formats: listOf(
    exactly({
      format: count,
      brings: text,
      since: described(text, "first version that supports the format"),
      enabled: flag,
    }),
  ),
  nodes: listOf(
    exactly({
      name: text,
      pid: text,
      version: nullable(text, {
        description: "version of the program; null if it does not report one",
      }),
      formats: nullable(FormatRange),
      blocks: described(
        flag,
        "whether the node must be upgraded before the newest format can be enabled",
      ),
    }),
  ),
});
export type UpgradeStatus = Shape<typeof UpgradeStatus>;
