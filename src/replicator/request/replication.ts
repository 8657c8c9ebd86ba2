/**
 * A parsed `_replicator` document or `_replicate` body: what to copy, and how. Plain JSON, so that
 * jobs can store it; parts whose numbers must be preserved are JSON texts.
 */
import { type JsonText, outlineJson } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import type {
  BasicCredentials,
  IamCredentials,
  OAuthClient,
  TlsSettings,
} from "../../http-client/index.ts";
import type { Labels } from "../../jobs/index.ts";
import type { After } from "./after.ts";
import type { Tags } from "./tags.ts";

/**
 * Selection of documents. Filters are applied by the source, or by this node if the source cannot
 * apply them.
 */
export type Selection =
  | { readonly kind: "all" }
  | { readonly kind: "doc-ids"; readonly ids: readonly string[] }
  | { readonly kind: "selector"; readonly selector: JsonText }
  | {
      readonly kind: "filter";
      readonly name: string;
      /** Parameters of the filter, as the text of a JSON object. */
      readonly queryParameters: JsonText;
    };

/**
 * Location of a reference: `basic.password`, `iam.apiKey`, `oauth2.clientSecret`,
 * `oauth2.clientAssertion`, `tls.password` or `headers.NAME`.
 */
export type ReferencePlace = string;

/** A database on a server. */
export interface HttpAddress {
  readonly kind: "http";
  /** URL without credentials; ends in `/` unless it has a query. */
  readonly url: string;
  readonly basic?: BasicCredentials;
  /**
   * User name as written in the URL, if it contains escapes. CouchDB computes replication ids from
   * this form.
   */
  readonly writtenUsername?: string;
  readonly iam?: IamCredentials;
  readonly oauth2?: OAuthClient;
  /** Additional headers, with the names as written. Does not include Basic authorization. */
  readonly headers: Readonly<Record<string, string>>;
  /** URL of a proxy, with its credentials. */
  readonly proxyUrl?: string;
  /** TLS settings that override those of the node. */
  readonly tls?: Partial<TlsSettings>;
  /** Locations of references to credentials (`references.ts`). */
  readonly references?: readonly ReferencePlace[];
}

/**
 * An address whose references have been resolved. Secrets that other programs renew are functions,
 * which throw if the secret cannot be read.
 */
export interface ResolvedAddress extends HttpAddress {
  /**
   * The `authorization` header: the reference as written, and a function that reads its current
   * value.
   */
  readonly authorization?: { readonly written: string; readonly read: () => string };
  /** Reads the client's assertion. */
  readonly readAssertion?: () => string;
}

/** A database in our own store. */
export interface LocalAddress {
  readonly kind: "local";
  readonly database: string;
}

export type EndpointAddress = HttpAddress | LocalAddress;

/**
 * Revisions of the selected documents that are omitted on purpose. A revision is never copied in
 * part, since the copy would be a different revision.
 */
export interface Omissions {
  /** Present if deleted revisions are omitted. */
  readonly deleted?: true;
  /** Maximum size of attachments. Revisions with a larger attachment are omitted. */
  readonly attachmentBytesMax?: number;
  /**
   * Maximum size of the JSON body, not counting protocol members. Revisions with a larger body are
   * omitted.
   */
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
  /** Revisions to omit; none if absent. */
  readonly omissions?: Omissions;
  /**
   * Source sequence at which the first run starts (`since_seq`). If absent, the run starts at the
   * beginning.
   */
  readonly sinceSequence?: unknown;
  /** Whether `sinceSequence` is JSON text, which preserves the form of numbers. */
  readonly sinceIsJson?: true;
  /**
   * Length of the job's time slice relative to other jobs of its group; `WEIGHT.default` if absent.
   */
  readonly weight?: number;
  /** Tags of the job. They do not affect the run. */
  readonly tags?: Tags;
  /** Labels that a node must have to run the job; if absent, any node can run the job. */
  readonly runOn?: Labels;
  /** Names of jobs for which the job waits before its first run. */
  readonly after?: After;
  /** Whether the job replicates in both directions (`pair.ts`). */
  readonly pair?: true;
  /** Schedule (`schedule.ts`). If absent, the job runs immediately. */
  readonly schedule?: string;
  /**
   * Whether the security object is copied in addition to the documents; rules can request this.
   * Default: false.
   */
  readonly copiesSecurity?: boolean;
  /**
   * Whether the security object is also copied to a target that already existed. Default: false.
   */
  readonly overwritesSecurity?: boolean;
  readonly options: ReplicationOptions;
}

/** Returns the members that replace the job if they change: all except tags and placement. */
export function fixedMembers({
  tags: _,
  runOn: __,
  ...fixed
}: Replication): Omit<Replication, "tags" | "runOn"> {
  return fixed;
}

/** Returns the filter parameters as query parameters: strings unchanged, other values as JSON. */
export function filterParameters({
  queryParameters,
}: Selection & { readonly kind: "filter" }): readonly (readonly [name: string, value: string])[] {
  return outlineJson(queryParameters, { depthMax: 1 })
    .values()
    .map(({ name, value }) => [name, value.string ?? value.text]);
}
