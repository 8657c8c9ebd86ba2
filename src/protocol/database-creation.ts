/** Parameters of `PUT /{db}`. CouchDB's cluster options are validated and have no effect. */
import { badRequest, ProtocolError } from "./protocol-error.ts";

/**
 * Checks the parameters. Throws a ProtocolError 400, as in CouchDB, or 501 for a partitioned
 * database.
 */
export function checkCreation(parameters: Readonly<Record<string, string>>): void {
  for (const name of ["n", "q"]) {
    const text = parameters[name];
    if (text === undefined || (/^\+?[0-9]+$/.test(text) && Number(text) > 0)) continue;
    throw badRequest(`The \`${name}\` value should be a positive integer.`);
  }
  const partitioned = parameters.partitioned ?? "false";
  if (partitioned === "true") {
    throw new ProtocolError(501, "not_implemented", "Partitioned databases are not supported");
  }
  if (partitioned !== "false") throw badRequest("Invalid `partitioned` parameter");
}
