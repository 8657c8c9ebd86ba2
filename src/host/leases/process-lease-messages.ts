/** Messages between a worker and the process that renews its lease. */
import type { LeaseEnding } from "../../jobs/index.ts";

/** Location of the store, which the child process opens itself. */
export type LeaseStore =
  | { readonly kind: "lmdb"; readonly directory: string }
  | {
      readonly kind: "foundationdb";
      readonly clusterFile: string | undefined;
      readonly apiVersion: number | undefined;
      readonly headerVersion: number | undefined;
      readonly prefix: string | undefined;
    };

export type ProcessLeaseMessage =
  | {
      readonly kind: "open";
      readonly store: LeaseStore;
      /** Prefix of the queue's subspace, in hexadecimal. */
      readonly prefix: string;
    }
  | { readonly kind: "start"; readonly worker: string; readonly leaseMs: number }
  | { readonly kind: "stop" };

export type ProcessLeaseAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "ended"; readonly ending: LeaseEnding };

/** Descriptor of the shared times in the child, after the standard streams and the channel. */
export const TIMES_DESCRIPTOR = 4;

/** Heartbeats per lease period; the child requires one before each renewal. */
export const BEATS_PER_LEASE = 10;
