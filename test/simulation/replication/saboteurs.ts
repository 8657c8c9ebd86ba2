/** Sabotaged endpoints and queues. Each of them has to be detected. */
import type { Fetch } from "../../../src/http-client/index.ts";
import { type HeldJob, type JobData, Jobs } from "../../../src/jobs/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import { type Endpoint, type Endpoints, TextDocument } from "../../../src/replicator/index.ts";

import { plainAnswer, responseOf } from "../network/simulated-network.ts";

export type Sabotage = (endpoints: Endpoints) => void;

/** Returns a sabotage that applies a change to each opened endpoint. */
function eachEndpoint(change: (endpoint: Endpoint) => void): Sabotage {
  return (endpoints) => {
    const open = endpoints.open.bind(endpoints);
    endpoints.open = (...address) => {
      const endpoint = open(...address);
      change(endpoint);
      return endpoint;
    };
  };
}

/** Returns a sabotage that silently loses one document in twenty. */
export function losing(): Sabotage {
  let count = 0;
  return eachEndpoint((endpoint) => {
    const write = endpoint.writer.writeDocuments.bind(endpoint.writer);
    endpoint.writer.writeDocuments = (documents, ...rest) =>
      write(
        documents.filter(() => ++count % 20 !== 0),
        ...rest,
      );
  });
}

/** Returns a sabotage that reports documents as written although they were not. */
export function swallowing(): Sabotage {
  let count = 0;
  return eachEndpoint((endpoint) => {
    const write = endpoint.writer.writeDocuments.bind(endpoint.writer);
    // Drops every seventh write. If the store refused a write, it would usually also refuse the
    // next checkpoint, which would hide the fault.
    endpoint.writer.writeDocuments = async (...args) => (++count % 7 === 0 ? [] : write(...args));
  });
}

/** Returns a `fetch` that treats documents as written if the server does not respond. */
export function trusting(fetch: Fetch): Fetch {
  return (request) =>
    fetch(request).catch((error: unknown) => {
      if (request.signal.aborted || !request.url.endsWith("/_bulk_docs")) throw error;
      return responseOf(plainAnswer(201, "[]"));
    });
}

/** Returns a sabotage that writes a different body under the same revision. */
export function rewriting(): Sabotage {
  return eachEndpoint((endpoint) => {
    const write = endpoint.writer.writeDocuments.bind(endpoint.writer);
    endpoint.writer.writeDocuments = (documents, ...rest) =>
      write(
        documents.map(({ id, text }) => {
          const rewritten = { ...JSON.parse(text), number: 0 };
          return new TextDocument(id, JSON.stringify(rewritten));
        }),
        ...rest,
      );
  });
}

/** Returns a sabotage that ends the changes feed after its first changes. */
export function curtailing(): Sabotage {
  return eachEndpoint((endpoint) => {
    const changes = endpoint.changes.bind(endpoint);
    endpoint.changes = async function* (request, signal) {
      for await (const items of changes({ ...request, continuous: false }, signal)) {
        yield items.slice(0, 2);
        return;
      }
    };
  });
}

/** Returns a sabotage that makes the changes feed ignore its filter. */
export function unfiltering(): Sabotage {
  return eachEndpoint((endpoint) => {
    const changes = endpoint.changes.bind(endpoint);
    endpoint.changes = (request, signal) =>
      changes({ ...request, selection: { kind: "all" } }, signal);
  });
}

/**
 * Returns a sabotage that writes documents of the hostile server into the database of another
 * replication.
 */
export function misdirecting(): Sabotage {
  return (endpoints) => {
    const open = endpoints.open.bind(endpoints);
    endpoints.open = (address, ...rest) => {
      const endpoint = open(address, ...rest);
      if (address.kind === "http" || address.database !== "hostile-taken") return endpoint;
      const other = open({ kind: "local", database: "b" }, ...rest);
      const write = endpoint.writer.writeDocuments.bind(endpoint.writer);
      endpoint.writer.writeDocuments = async (documents, ...more) => {
        const stray = documents.map(({ id, text }) => {
          const _id = `${id}-stray`;
          return new TextDocument(_id, JSON.stringify({ ...JSON.parse(text), _id }));
        });
        await other.writer.writeDocuments(stray, ...more);
        return write(documents, ...more);
      };
      return endpoint;
    };
  };
}

/** Returns a function that opens a queue. This queue stores distorted data at the end of a run. */
export function distortingJobs(distort: (data: JobData) => JobData) {
  return (...parts: ConstructorParameters<typeof Jobs>): Jobs => {
    class DistortingJobs extends Jobs {
      override finish(
        tx: Transaction,
        held: HeldJob,
        data?: JobData,
        request?: JobData,
      ): Promise<void> {
        return super.finish(tx, held, data && distort(data), request);
      }
    }
    return new DistortingJobs(...parts);
  };
}
