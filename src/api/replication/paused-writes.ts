/**
 * `paused=true`: writes replication documents whose jobs start paused, so that they do not run
 * while another replicator still runs the same replications.
 */
import type { WriteContext } from "../../databases/index.ts";
import { badRequest } from "../../protocol/index.ts";
import { isReplicatorDatabase } from "../../replicator/index.ts";
import { requireAdmin } from "../access/authorization.ts";
import { databaseName } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import { booleanParameter } from "../http/query.ts";
import { deciderOf } from "./decider.ts";

/**
 * Parses the query parameters for the jobs of a write. Throws a ProtocolError 400, or 401 unless
 * the user is a server administrator.
 */
export function pausingOf(call: Call): Pick<WriteContext, "pausing"> {
  if (!booleanParameter(call, "paused")) return {};
  if (!isReplicatorDatabase(databaseName(call))) {
    throw badRequest("`paused` is only supported in documents of `_replicator` databases");
  }
  requireAdmin(call);
  const { why } = deciderOf(call, call.request.query.get("why"));
  const { requestId } = call;
  return { pausing: why === undefined ? { requestId } : { why, requestId } };
}
