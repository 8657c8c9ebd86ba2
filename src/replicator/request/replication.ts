/**
 * A parsed `_replicator` document or `_replicate` body: what is copied, and how. It is plain JSON, so a job can store
 * it. Parts whose numbers have to keep their form are texts.
 */
import { type JsonText, outlineJson } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import type { BasicCredentials, IamCredentials, TlsSettings } from "../../http-client/index.ts";

/** Which documents are copied. The source filters; what it cannot filter is filtered here. */
export type Selection =
  | { readonly kind: "all" }
  | { readonly kind: "doc-ids"; readonly ids: readonly string[] }
  | { readonly kind: "selector"; readonly selector: JsonText }
  | {
      readonly kind: "filter";
      readonly name: string;
      /** An object. */
      readonly queryParameters: JsonText;
    };

/** A place in an address where a reference stands: `basic.password`, `iam.apiKey`, `tls.password`, or `headers.` and a name. */
export type ReferencePlace = string;

/** A database on a server. */
export interface HttpAddress {
  readonly kind: "http";
  /** Without credentials; ends in `/` unless it has a query. */
  readonly url: string;
  readonly basic?: BasicCredentials;
  /** The user's name as the URL has it, if that has escapes: CouchDB's ids do not resolve them. */
  readonly writtenUsername?: string;
  readonly iam?: IamCredentials;
  /** Names as given, without a Basic authorization. */
  readonly headers: Readonly<Record<string, string>>;
  /** With the credentials that the proxy wants. */
  readonly proxyUrl?: string;
  /** Over the node's own settings. */
  readonly tls?: Partial<TlsSettings>;
  /** Where references stand instead of credentials (`references.ts`). */
  readonly references?: readonly ReferencePlace[];
}

/** A database in our own store. */
export interface LocalAddress {
  readonly kind: "local";
  readonly database: string;
}

export type EndpointAddress = HttpAddress | LocalAddress;

/** What of the selected documents stays behind on purpose. A revision is copied whole or not at all: a part of it would be another one. */
export interface Omissions {
  /** Revisions that delete. */
  readonly deleted?: true;
  /** Those with an attachment of more bytes. */
  readonly attachmentBytesMax?: number;
  /** Those whose body as JSON has more bytes, without the members of the protocol. */
  readonly documentBytesMax?: number;
}

export interface Replication {
  readonly source: EndpointAddress;
  readonly target: EndpointAddress;
  readonly continuous: boolean;
  readonly createTarget: boolean;
  readonly createTargetParameters: Readonly<Record<string, string>>;
  readonly selection: Selection;
  readonly winningRevisionsOnly: boolean;
  /** Absent: all that is selected is copied. */
  readonly omissions?: Omissions;
  /** Where a first run begins; absent: at the start. */
  readonly sinceSequence?: unknown;
  /** Whether `sinceSequence` is JSON text: numbers in it would not be stored in their form. */
  readonly sinceIsJson?: true;
  /** How long the job keeps its slot beside others of its group; absent: `WEIGHT.default`. */
  readonly weight?: number;
  /** When it runs, as `schedule.ts` reads it; absent: at once. */
  readonly schedule?: string;
  /** Whether the security object is copied, too; absent: no. Rules ask for it. */
  readonly copiesSecurity?: boolean;
  /** Whether it is copied also to a target that existed before; absent: no. */
  readonly overwritesSecurity?: boolean;
  readonly options: ReplicationOptions;
}

/** The parameters of a filter as a query has them: strings as they are, anything else as JSON. */
export function filterParameters({
  queryParameters,
}: Selection & { readonly kind: "filter" }): readonly (readonly [name: string, value: string])[] {
  return outlineJson(queryParameters, { depthMax: 1 })
    .values()
    .map(({ name, value }) => [name, value.string ?? value.text]);
}
