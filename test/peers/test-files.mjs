import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns the files in these folders whose names match, as paths relative to the checkout, ordered
 * within each folder.
 */
export function filesIn(checkout, folders, pattern) {
  return folders.flatMap((folder) =>
    readdirSync(join(checkout, folder))
      .filter((name) => pattern.test(name))
      .sort()
      .map((name) => `${folder}/${name}`),
  );
}
