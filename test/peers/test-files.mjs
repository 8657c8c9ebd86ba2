import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * The files in these folders of a checkout whose names match, ordered within each folder, as paths
 * relative to the checkout.
 */
export function filesIn(checkout, folders, pattern) {
  return folders.flatMap((folder) =>
    readdirSync(join(checkout, folder))
      .filter((name) => pattern.test(name))
      .sort()
      .map((name) => `${folder}/${name}`),
  );
}
