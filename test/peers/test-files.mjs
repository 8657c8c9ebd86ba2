import { readdirSync } from "node:fs";
import { join } from "node:path";

/** The files of these folders of a checkout whose names match, each folder's in order, as paths below the checkout. */
export function filesIn(checkout, folders, pattern) {
  return folders.flatMap((folder) =>
    readdirSync(join(checkout, folder))
      .filter((name) => pattern.test(name))
      .sort()
      .map((name) => `${folder}/${name}`),
  );
}
